"""Helpers of the emulator's tests: code objects, and expected values from pseudo-code."""
