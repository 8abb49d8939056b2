"""C for a device on Linux, which every target's driver ships: registers, memory, caches."""

from pathlib import Path

_FOLDER = Path(__file__).parent / "device"
DEVICE_SOURCES = {
    _FOLDER / "device.c": "driver: registers, and memory by u-dma-buf",
    _FOLDER / "device.h": "driver: the interface to both",
}
"""And what each is."""
