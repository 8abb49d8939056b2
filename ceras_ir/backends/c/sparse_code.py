"""
Sparse sums as straight-line code for processors with vectors of 16 lanes: positions are lanes.

Sums of a block of filters, for 16 positions, stay in registers. Each vector of inputs is loaded
once and multiplied by the weights that meet it, which come from memory, the same in all lanes:
four bytes at once (a dot product), or a float. Text is assembler, because compilers take minutes
for so many statements of C.
"""

from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.planes import Planes

CONDITION = "MODEL_LANES == 16 && defined(__x86_64__)"
"""What the preprocessor tests."""

MOST_SUMS, INPUT = 28, 31
"""Registers that hold sums, and the one that holds inputs; one more takes products."""

PRODUCT = 30

ORDER, LEAST, MOST = 28, 29, 30
"""What makes bytes of sums: how bytes of four outputs become words, and two bounds."""

IN_FOURS = (0x0C080400, 0x0D090501, 0x0E0A0602, 0x0F0B0703)
"""Bytes of four vectors, packed, in the order of positions."""

MOST_PRODUCTS = 1 << 16
"""Instructions with a weight that one layer may become: some 650 KB."""


@dataclass(frozen=True)
class Narrow:
    """How sums become bytes: they begin with a bias and end with a shift and a clamp."""

    biases: NDArray[np.int64]
    """Of each filter."""
    shifts: NDArray[np.int64]
    low: int
    high: int


@dataclass(frozen=True)
class Product:
    """One instruction: a filter's weights at an input."""

    order: int
    """Inputs are taken in this order."""
    offset: int
    """Of the input in the planes, in bytes."""
    filter: int
    weight: int
    """Its 32 bits."""


def products(weights: NDArray[np.generic], planes: Planes) -> list[Product]:
    """
    What is to be multiplied, filter by filter: floats one by one in the order of the weights, bytes
    as words of four planes.
    """
    plane, offset = planes.places()
    flat = np.ascontiguousarray(weights).reshape(len(weights), -1)
    if flat.dtype == np.float32:
        rows, columns = np.nonzero(flat)
        bits = flat[rows, columns].view(np.uint32)
        places = (plane * planes.pitch + offset) * 4
        return [
            Product(k, int(places[k]), o, w)
            for o, k, w in zip(rows.tolist(), columns.tolist(), bits.tolist(), strict=True)
        ]
    bits, places = _words(flat, planes)
    rows, columns = np.nonzero(bits)
    return [
        Product(k, int(places[k]) * 4, o, int(bits[o, k]))
        for o, k in zip(rows.tolist(), columns.tolist(), strict=True)
    ]


def _words(
    flat: NDArray[np.generic], planes: Planes
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Weights of four planes in a word: [filters, places], and the places in words."""
    plane, offset = planes.places()
    places, inverse = np.unique(plane // 4 * planes.pitch + offset, return_inverse=True)
    words = np.zeros((len(flat), len(places), 4), np.int8)
    words[:, inverse, plane % 4] = flat
    return words.reshape(len(flat), -1).view(np.uint32), places


def product_count(weights: NDArray[np.generic], planes: Planes) -> int:
    """How many instructions with a weight there are."""
    if weights.dtype == np.float32:
        return int(np.count_nonzero(weights))
    return int(np.count_nonzero(_words(weights.reshape(len(weights), -1), planes)[0]))


def blocks(filters: int) -> list[range]:
    """Filters whose sums are in registers at once, in fours."""
    count = -(-filters // MOST_SUMS)
    size = -(-filters // count // 4) * 4
    return [range(i, min(i + size, filters)) for i in range(0, filters, size)]


def block_text(
    name: str,
    block: range,
    found: list[Product],
    first: int,
    *,
    ordered: bool,
    is_float: bool,
    narrow: Narrow | None,
) -> tuple[str, list[int]]:
    """
    A function that stores the sums of a block as [filters, 16], or bytes as [filters / 4, 16, 4],
    and the words that it reads, of which the first is number `first` of the layer.
    """
    mine = sorted((p for p in found if p.filter in block), key=lambda p: (p.order, p.filter))
    register = {o: i for i, o in enumerate(block)}
    words: list[int] = []

    def word(value: int) -> str:
        words.append(value & 0xFFFFFFFF)
        return f"{4 * (first + len(words) - 1)}(%[w])"

    sums = range(-(-len(block) // 4) * 4 if narrow else len(block))
    lines = [f"vpxord %%zmm{i}, %%zmm{i}, %%zmm{i}" for i in sums]
    if narrow:
        for o, i in register.items():
            lines[i] = f"vpbroadcastd {word(int(narrow.biases[o]))}, %%zmm{i}"
    for offset, group in groupby(mine, key=lambda p: p.offset):
        lines.append(f"vmovdqu32 {offset}(%[x]), %%zmm{INPUT}")
        for product in group:
            weight = f"{word(product.weight)}%{{1to16%}}"
            total = f"%%zmm{register[product.filter]}"
            if not is_float:
                lines.append(f"vpdpbusd {weight}, %%zmm{INPUT}, {total}")
            elif not ordered:
                lines.append(f"vfmadd231ps {weight}, %%zmm{INPUT}, {total}")
            else:
                lines.append(f"vmulps {weight}, %%zmm{INPUT}, %%zmm{PRODUCT}")
                lines.append(f"vaddps %%zmm{PRODUCT}, {total}, {total}")
    if narrow:
        at = word(IN_FOURS[0])
        words += IN_FOURS[1:]
        lines.append(f"vbroadcasti32x4 {at}, %%zmm{ORDER}")
        for bound, register_of in ((narrow.low, LEAST), (narrow.high, MOST)):
            lines.append(f"vpbroadcastd {word((bound & 255) * 0x01010101)}, %%zmm{register_of}")
        for o, i in register.items():
            lines.append(f"vpsrad ${int(narrow.shifts[o])}, %%zmm{i}, %%zmm{i}")
        for i in sums[::4]:
            lines += _as_bytes(i, 16 * (block.start + i))
    else:
        lines += [f"vmovdqu32 %%zmm{register[o]}, {64 * o}(%[sums])" for o in block]
    registers = ", ".join(f'"xmm{i}"' for i in range(32))
    body = "\n".join(f'      "{line}\\n\\t"' for line in lines)
    text = (
        f"/* Filters {block.start} to {block.stop - 1}: {len(mine)} products at 16 positions. */\n"
        f"MODEL_TILE void {name}(const void *x, const void *w, void *sums)\n{{\n"
        f"  __asm__ volatile(\n{body}\n"
        '      :\n      : [x] "r"(x), [w] "r"(w), [sums] "r"(sums)\n'
        f'      : "memory", {registers});\n}}\n'
    )
    return text, words


def _as_bytes(first: int, at: int) -> list[str]:
    """Stores the sums of four registers, saturated to bytes, as words of 16 positions."""
    a, b, c, d = (f"%%zmm{first + i}" for i in range(4))
    return [
        f"vpackssdw {b}, {a}, {a}",
        f"vpackssdw {d}, {c}, {c}",
        f"vpacksswb {c}, {a}, {a}",
        f"vpmaxsb %%zmm{LEAST}, {a}, {a}",
        f"vpminsb %%zmm{MOST}, {a}, {a}",
        f"vpshufb %%zmm{ORDER}, {a}, {a}",
        f"vmovdqu32 {a}, {at}(%[sums])",
    ]
