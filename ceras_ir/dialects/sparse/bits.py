"""Numbers of any width side by side, the lowest bit of a byte first, filled up with zeros."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.uint64]

_WHOLE = (8, 16, 32, 64)


def packed_bytes(count: int, width: int) -> int:
    """Bytes that so many numbers take."""
    return -(-count * width // 8)


def pack(numbers: NDArray[np.generic], width: int) -> bytes:
    """The bytes of `numbers`, each below `2**width`."""
    flat = numbers.reshape(-1)
    if width in _WHOLE:
        return flat.astype(f"<u{width // 8}").tobytes()
    wide = flat.astype(np.uint64)[:, None]
    bits = (wide >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack(data: bytes, width: int, count: int) -> Numbers:
    """The first `count` numbers of some bytes, of which there are enough."""
    if width == 0:
        return np.zeros(count, np.uint64)
    if width in _WHOLE:
        return np.frombuffer(data, f"<u{width // 8}", count).astype(np.uint64)
    raw = np.frombuffer(data, np.uint8, packed_bytes(count, width))
    bits = np.unpackbits(raw, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))


def width_of(largest: int) -> int:
    """Bits of numbers up to `largest`; none for zero alone."""
    return int(largest).bit_length()
