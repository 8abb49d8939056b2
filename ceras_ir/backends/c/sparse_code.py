"""
Listed weights as kernels read them, sums over them as straight-line code, and their costs.

The code is for processors with vectors of 16 lanes, whose lanes are positions. Sums of a block of
filters, for 16 positions, stay in registers. Each vector of inputs is loaded once and multiplied by
its weights, which come from memory, the same in all lanes: four bytes at once (a dot product), or a
float. Text is assembler, because compilers take minutes for so many statements of C.
"""

from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i8

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.planes import PAIR_COLUMNS, PairedPlanes, Planes
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.sparse import CooAttr, SparseBlockAttr

WIDTHS = range(2, 12)
"""Bits of distances that are tried."""

WIDEST = 25
"""Bits that kernels read at once."""

BEHIND = 3
"""Bytes that they read with the last one."""


@dataclass(frozen=True)
class SparseSource:
    """The constants of a layer's listed weights, declared in its function as `source`."""

    layer: Layer
    encoded: CooAttr | SparseBlockAttr
    unit: int
    """Weights in each place."""
    kind: str
    """Of entries."""
    taps: str

    @classmethod
    def of(
        cls,
        layer: Layer,
        op: LinearOperation,
        weights: NDArray[np.generic],
        taps: list[int],
        *,
        scale: int = 1,
    ) -> "SparseSource":
        """
        Of weights [filters, products], in entries times `scale`; `taps` are where inputs of the
        window's elements are.
        """
        is_float = weights.dtype == np.float32
        kind, value, wide = ("f32", "float", "float") if is_float else ("i8", "int8_t", "int32_t")
        kind = kind if scale == 1 else f"{kind}_{scale}"
        factor = f"{scale} * " if scale > 1 else ""
        layer.kernels.use("sparse_entries", NAME=kind, VALUE=value, WIDE=wide, SCALE=factor)
        encoded, unit = readable(weights, op)
        places = layer.array("taps", np.array(taps, np.int32), "int32_t")
        return cls(layer, encoded, unit, kind, places)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Weights of each filter."""
        return self.encoded.filter_counts.astype(np.int64) * self.unit

    def reserve(self, multiple: int = 1) -> None:
        """Declare `entries`, for a filter's and none more, in whole groups."""
        most = int(self.counts.max(initial=0)) + 1
        most = -(-most // multiple) * multiple
        self.layer.scratch(f"struct sparse_entry_{self.kind}", "entries", most, 8)

    def declare(self, depth: int) -> None:
        """Declare the source, at the first filter."""
        layer, encoded = self.layer, self.encoded
        counts, places = (
            layer.array(name, np.frombuffer(data + bytes(BEHIND), np.uint8), "uint8_t")
            for name, data in (("counts", encoded.counts.data), ("places", encoded.places.data))
        )
        held = encoded.elements_of_values
        held = held if held.size else np.zeros(1, held.dtype)
        values = layer.array("values", held, "float" if held.dtype == np.float32 else "int8_t")
        layer.line(
            f"struct sparse_source_{self.kind} source = {{{counts}, {places}, {values}, 0, 0}};",
            depth,
        )

    def next_filter(self, channels: int, pitch: int) -> str:
        """
        The expression that reads the next filter's weights into `entries`, and says how many they
        are; inputs of a place's channels are `pitch` apart.
        """
        encoded = self.encoded
        equal = 0 if encoded.counts.data else int(encoded.filter_counts[0])
        return (
            f"sparse_entries_{self.kind}(entries, &source, {encoded.counts_width.data}, {equal}, "
            f"{encoded.delta.data}, {self.unit}, {self.taps}, {channels}, {pitch})"
        )


def readable(
    weights: NDArray[np.generic], op: LinearOperation
) -> tuple[CooAttr | SparseBlockAttr, int]:
    """
    The weights as kernels read them, and how many stand in each place: as the constant lists them
    where that is distances, or blocks of neighbours, else by distances of the best width.
    """
    encoded, channels = op.encoded_weights, shape_of(op.weights)[-1]
    if isinstance(encoded, CooAttr | SparseBlockAttr) and encoded.counts_width.data <= WIDEST:
        # Zero points make other numbers of the weights.
        is_same = np.array_equal(encoded.array.reshape(weights.shape), weights)
        is_distance = 0 < encoded.delta.data <= WIDEST
        unit = 1 if isinstance(encoded, CooAttr) else encoded.columns.data
        in_row = isinstance(encoded, CooAttr) or encoded.rows.data == 1
        if is_same and is_distance and in_row and channels % unit == 0:
            return encoded, unit
    return smallest_distances(weights), 1


def smallest_distances(weights: NDArray[np.generic]) -> CooAttr:
    """Coordinates as distances of the width that takes the fewest bytes."""
    element = f32 if weights.dtype == np.float32 else i8
    return min((CooAttr.of(weights, element, w) for w in WIDTHS), key=lambda coo: coo.nbytes)


SPARSE_CONDITION = "MODEL_LANES == 16 && defined(__x86_64__)"
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


# Costs are cycles of a processor with vectors of 16 lanes, and instructions of a Cortex-M4.
# Coefficients were fitted to `benchmarks/sparse_kernels.py`, which prints from which share of
# zeros on sparse code is faster.


SPARSE = "sparse"
"""What reports call the kernel."""

HOST_WORKSPACE, CORE_WORKSPACE = 256 * 1024, 24 * 1024
"""Bytes of scratch memory that planes may take where the target does not say."""

DENSE_BYTES, DENSE_FLOATS, DENSE_WINOGRAD = 62.0, 15.4, 27.0
"""Products in a cycle, of register tiles."""

CYCLES_PER_DOT, CYCLES_PER_FLOAT = 1.0, 2.1
"""Of a product with 16 positions, its inputs' loads included."""

CYCLES_PER_BYTE, CYCLES_PER_WORD = 0.25, 0.6
"""Of a result of bytes, and of a word of four that is laid into planes."""

CYCLES_PER_OUTPUT, CYCLES_PER_ELEMENT = 0.6, 1.0
"""The same of floats."""

CYCLES_PER_LOOSE_BYTE = 2.0
"""The same of bytes where channels do not come in fours."""

TILE, PER_TILE, PER_OUTPUT, PER_ELEMENT, PER_DECODED = 8, 45.0, 10.0, 6.0, 26.0
"""Instructions of a Cortex-M4, of eight positions at a time."""

PAIRED_ENTRY, PAIRED_TILE, PAIRED_WORD, PAIRED_PLACE, PAIRED_FILTER = 8.5, 52.0, 4.5, 24.0, 80.0
"""The same of pairs of positions: of words of a channel and of a place, and of a filter too."""

DENSE_INSTRUCTIONS = 0.9
"""Of a product in tiles of pairs; `linear_dsp.py` computes it more exactly for windows of 3x3."""

PORTABLE_DENSE, PORTABLE_ENTRY = 8.3, 68.0
"""Of bytes on cores without pairs: of a product, and of a weight at eight positions."""

FLOAT_DENSE, FLOAT_ENTRY = 2.4, 26.0
"""The same of floats."""


@dataclass(frozen=True)
class Cost:
    """Cycles or instructions of both ways."""

    dense: float
    sparse: float


def host_cost(op: LinearOperation, weights: NDArray[np.generic]) -> Cost | None:
    """Modelled cycles of one inference; None where there is no sparse kernel."""
    is_float = weights.dtype == np.float32
    planes = Planes.of(op, Geometry.of(op), 4 if is_float else 1, HOST_WORKSPACE)
    if planes is None:
        return None
    count = product_count(weights.reshape(len(weights), -1), planes.clustered(weights))
    if count > MOST_PRODUCTS:
        return None
    strips = planes.images * -(-planes.rows // planes.strip)
    vectors = strips * -(-planes.positions // 16)
    sparse = count * vectors * (CYCLES_PER_FLOAT if is_float else CYCLES_PER_DOT)
    outputs = prod(shape_of(op.result))
    sparse += outputs * (CYCLES_PER_OUTPUT if is_float else CYCLES_PER_BYTE)
    elements = strips * planes.elements
    if is_float:
        sparse += elements * CYCLES_PER_ELEMENT
    elif planes.channels % 4 == 0:
        sparse += elements / 4 * CYCLES_PER_WORD
    else:
        sparse += elements * CYCLES_PER_LOOSE_BYTE
    rate = DENSE_BYTES
    if is_float:
        rate = DENSE_WINOGRAD if _is_winograd(op) else DENSE_FLOATS
    return Cost(op.macs / rate, sparse)


def _is_winograd(op: LinearOperation) -> bool:
    if not isinstance(op, Conv2dOp) or op.ordered is not None:
        return False
    plain = op.strides.get_values() == (1, 1) and op.dilations.get_values() == (1, 1)
    return plain and shape_of(op.weights)[1:3] == (3, 3)


def core_cost(
    op: LinearOperation, weights: NDArray[np.generic], *, has_pairs: bool, dense: float | None
) -> Cost | None:
    """Modelled instructions of one inference; `dense` if it is known."""
    is_float = weights.dtype == np.float32
    planes = Planes.of(op, Geometry.of(op), 4 if is_float else 1, CORE_WORKSPACE)
    if planes is None:
        return None
    entries = np.count_nonzero(weights.reshape(len(weights), -1), axis=1)
    if has_pairs and (pairs := PairedPlanes.of(planes, CORE_WORKSPACE)) and not is_float:
        strips, near = planes.images * pairs.strips, pairs.near
        tiles = strips * near.strip * -(-near.columns // PAIR_COLUMNS)
        sparse = tiles * (float(entries.sum()) * PAIRED_ENTRY + len(weights) * PAIRED_TILE)
        places = pairs.words // near.channels
        sparse += strips * (
            pairs.words * PAIRED_WORD + places * PAIRED_PLACE + len(weights) * PAIRED_FILTER
        )
    else:
        strips = planes.images * -(-planes.rows // planes.strip)
        tiles = planes.images * planes.rows * -(-planes.columns // TILE)
        per_entry = FLOAT_ENTRY if is_float else PORTABLE_ENTRY
        sparse = float(entries.sum()) * tiles * per_entry
        sparse += tiles * len(weights) * PER_TILE + prod(shape_of(op.result)) * PER_OUTPUT
        sparse += strips * planes.elements * PER_ELEMENT
    sparse += strips * float(entries.sum()) * PER_DECODED
    if dense is None:
        per_dense = FLOAT_DENSE if is_float else DENSE_INSTRUCTIONS if has_pairs else PORTABLE_DENSE
        dense = op.macs * per_dense
    return Cost(dense, sparse)
