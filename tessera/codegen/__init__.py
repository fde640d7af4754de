"""Kernel IR to LLVM IR text, LLVM IR to an object, objects to one code object."""
