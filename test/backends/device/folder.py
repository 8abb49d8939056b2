"""
Simulate a device without a board: files in a folder are the registers and contiguous memory.

The file `mem` replaces /dev/mem for the registers of a device, `dev/udmabuf0` is the memory, and
`class/u-dma-buf/udmabuf0` has the attributes of the memory. A process that maps the memory sees the
same bytes as the device. `caches.c`, preloaded by a driver, simulates caches between them.
"""

import subprocess
from pathlib import Path

NAME = "udmabuf0"
ATTRIBUTES = ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device")
CACHES = Path(__file__).parent / "caches.c"


def make_folder(folder: Path, base: int, size: int) -> None:
    """Create the files of a device with a memory of `size` bytes at address `base`."""
    attributes = folder / "class" / "u-dma-buf" / NAME
    attributes.mkdir(parents=True)
    (attributes / "phys_addr").write_text(f"{base:#010x}\n")
    (attributes / "size").write_text(f"{size}\n")
    for name in ATTRIBUTES:
        (attributes / name).write_text("")
    (folder / "dev").mkdir()
    for name, length in (("dev/udmabuf0", size), ("mem", 1 << 32)):
        with open(folder / name, "wb") as file:
            file.truncate(length)


def build_caches(folder: Path) -> Path:
    """Build the library to preload."""
    library = folder / "caches.so"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, str(CACHES), "-o", str(library), "-ldl"], check=True)
    return library


def operations(log: Path) -> list[tuple[str, int, int]]:
    """Return the log of `caches.c`: clean or invalidate, offset and bytes."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [(kind, int(offset), int(size)) for kind, offset, size in lines]
