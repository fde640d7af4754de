"""The dialects of every level: operations and types, and which of them are legal where."""
