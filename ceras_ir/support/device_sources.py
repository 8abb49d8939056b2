"""
Sources that several targets use: C for a device on Linux (registers, memory, caches), and a module
of SystemVerilog.
"""

from pathlib import Path

_FOLDER = Path(__file__).parent / "device"
DEVICE_SOURCES = {
    _FOLDER / "device.c": "driver: registers, and memory by u-dma-buf",
    _FOLDER / "device.h": "driver: the interface to both",
}
"""And what each is."""
STREAM_FIFO = Path(__file__).parent / "hdl" / "stream_fifo.sv"
"""A queue between two modules."""
