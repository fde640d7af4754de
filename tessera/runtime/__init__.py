"""Artifacts and tensors to results: launches on a device, on the emulator, or in float64."""

from tessera.runtime.launch import Launcher, launch, launcher
from tessera.runtime.loading import load
from tessera.runtime.record import LaunchRecord, last_launch

__all__ = ["LaunchRecord", "Launcher", "last_launch", "launch", "launcher", "load"]
