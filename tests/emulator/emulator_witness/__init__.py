"""Helpers of the emulator's tests: code objects from instructions, expected values from pseudo-code."""
