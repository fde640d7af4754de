"""Other compilers' code objects for the same problems, for the same emulator and timing model."""
