"""A Python function and its arguments to Graph IR."""
