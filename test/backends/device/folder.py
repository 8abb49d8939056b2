"""
A device without a board: a folder whose files are registers and contiguous memory.

`mem` is /dev/mem as far as a device's registers go, `dev/udmabuf0` the memory,
`class/u-dma-buf/udmabuf0` its attributes. A process that maps the memory sees what the device sees;
caches between them are `caches.c`'s, which a driver has preloaded.
"""

import subprocess
from pathlib import Path

NAME = "udmabuf0"
ATTRIBUTES = ("sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device")
CACHES = Path(__file__).parent / "caches.c"


def make_folder(folder: Path, base: int, size: int) -> None:
    """The files of a device whose memory has `size` bytes at `base`."""
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
    """The library to preload."""
    library = folder / "caches.so"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, str(CACHES), "-o", str(library), "-ldl"], check=True)
    return library


def operations(log: Path) -> list[tuple[str, int, int]]:
    """What `caches.c` logged: clean or invalidate, offset and bytes."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [(kind, int(offset), int(size)) for kind, offset, size in lines]
