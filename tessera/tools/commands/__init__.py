"""One module per `tessera` command; each parses its options and prints, and does nothing else."""
