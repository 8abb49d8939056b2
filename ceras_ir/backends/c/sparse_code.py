"""
Encode sparse weights for kernels, print sums over them as straight-line code, and estimate costs.

The code is for processors with vectors of 16 lanes, which hold 16 positions. The sums of a block of
filters remain in registers. Each vector of inputs is loaded a single time and multiplied by four
bytes of weights (a dot product) or by a float, which is broadcast from memory. The text is
assembler, because compilers take minutes for this number of C statements.
"""

from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i8

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.planes import REGISTER_COLUMNS, PairedPlanes, Planes
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.dialects.sparse import CooAttr, Encoded, SparseBlockAttr

WIDTHS = range(2, 12)
"""The widths of distances in bits that are tried."""

MAX_LOAD_BITS = 25
"""The maximum width of a value in bits that kernels load at once."""

MAX_VALUE_BITS = 6
"""The maximum width of values that are packed. A kernel reads bytes faster."""

TRAILING_BYTES = 3
"""The number of bytes after the last byte of an array that kernels may load together with it."""


@dataclass(frozen=True)
class SparseSource:
    """
    The encoded weights of a layer as C constants, and the C variable `source`, a position in them.
    A kernel decodes a filter at a time.
    """

    layer: Layer
    encoded: CooAttr | SparseBlockAttr
    unit: int
    """The number of weights at each place."""
    kind: str
    """The kind of stored weights, in names of functions."""
    entry: str
    """The kind of decoded weights, in the name of their structure."""
    bits: int
    """The bits of stored integers, 8 if they are bytes; 32 for floats."""
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
        Add the encoded `weights` [filters, products] to the constants. For each tap (a position of
        the window), `taps` has the offset of the input element in the planes. Decoded weights are
        multiplied by `scale`.
        """
        is_float = weights.dtype == np.float32
        encoded, unit = readable(weights, op)
        bits = 32 if is_float else value_bits(encoded.elements_of_values)
        factor, name = f"{scale} * " if scale > 1 else "", f"_{scale}" if scale > 1 else ""
        entry, wide = ("f32", "float") if is_float else ("i32", "int32_t")
        layer.kernels.use("sparse_entry", NAME=entry, WIDE=wide)
        if bits < BYTE_BITS:
            layer.packed_bits = bits
            kind, sign = f"i{bits}{name}", 1 << (bits - 1)
            field = f"sparse_bits_{kind}(from->values, from->at_value, {bits})"
            read, after = f"((int32_t)({field} ^ {sign}u) - {sign})", f" from->at_value += {bits};"
            value = "uint8_t"
        else:
            kind, read, after = f"{'f32' if is_float else 'i8'}{name}", "*from->values++", ""
            value = "float" if is_float else "int8_t"
        layer.kernels.use(
            "sparse_entries", NAME=kind, VALUE=value, ENTRY=entry, READ=factor + read, NEXT=after
        )
        places = layer.array("taps", np.array(taps, np.int32), "int32_t")
        return cls(layer, encoded, unit, kind, entry, bits, places)

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.encoded.filter_counts.astype(np.int64) * self.unit

    def reserve(self, multiple: int = 1) -> None:
        """
        Declare the C array `entries` in the workspace, which holds the decoded weights of a filter
        and an end mark. The length is rounded up to a multiple of `multiple`.
        """
        count = int(self.counts.max(initial=0)) + 1
        count = -(-count // multiple) * multiple
        self.layer.scratch(f"struct sparse_entry_{self.entry}", "entries", count, 8)

    def declare(self, depth: int) -> None:
        """
        Print the declaration of the C variable `source` at the first filter, with indentation
        `depth`.
        """
        layer, encoded = self.layer, self.encoded
        counts, places = (
            layer.array(name, np.frombuffer(data + bytes(TRAILING_BYTES), np.uint8), "uint8_t")
            for name, data in (("counts", encoded.counts.data), ("places", encoded.places.data))
        )
        stored = encoded.elements_of_values
        stored = stored if stored.size else np.zeros(1, stored.dtype)
        ctype = "float" if stored.dtype == np.float32 else "int8_t"
        if self.bits < BYTE_BITS:
            split = np.unpackbits(
                stored.view(np.uint8)[:, None], axis=1, count=self.bits, bitorder="little"
            )
            stored = np.append(np.packbits(split, bitorder="little"), [0] * TRAILING_BYTES)
            stored, ctype = stored.astype(np.uint8), "uint8_t"
        values = layer.array("values", stored, ctype)
        layer.line(
            f"struct sparse_source_{self.kind} source = {{{counts}, {places}, {values}, 0, 0, 0}};",
            depth,
        )

    def next_filter(self, channels: int, pitch: int) -> str:
        """
        Return the C expression that decodes the next filter into `entries`. The value of the
        expression is the number of decoded weights. `channels` is the number of input channels, and
        `pitch` is the distance in elements between the inputs of two channels.
        """
        encoded = self.encoded
        equal = 0 if encoded.counts.data else int(encoded.filter_counts[0])
        return (
            f"sparse_entries_{self.kind}(entries, &source, {encoded.counts_width.data}, {equal}, "
            f"{encoded.delta.data}, {self.unit}, {self.taps}, {channels}, {pitch})"
        )


def value_bits(values: NDArray[np.generic]) -> int:
    """
    Return the bits in which kernels store the int8 `values` of an encoding: the fewest that hold
    all, or 8 if packed values would save less than a quarter.
    """
    if not values.size:
        return BYTE_BITS
    signed = values.astype(np.int64)
    bits = max(int(signed.max()), -int(signed.min()) - 1).bit_length() + 1
    return bits if bits <= MAX_VALUE_BITS else BYTE_BITS


def packed_bytes(encoded: Encoded) -> int:
    """Return the bytes of encoded weights, with int8 values in the bits of `value_bits`."""
    values = encoded.elements_of_values
    if values.dtype != np.int8:
        return encoded.nbytes
    saved = values.size * (BYTE_BITS - value_bits(values)) // BYTE_BITS
    return encoded.nbytes - saved


def readable(
    weights: NDArray[np.generic], op: LinearOperation
) -> tuple[CooAttr | SparseBlockAttr, int]:
    """
    Return the weights of `op` in an encoding that kernels can decode, and the number of weights at
    each encoded position (1, or the width of a block).

    If `op` has such an encoding, it is kept; otherwise the weights are encoded as the distances
    between nonzero weights.
    """
    encoded, channels = op.encoded_weights, shape_of(op.weights)[-1]
    if (
        isinstance(encoded, CooAttr | SparseBlockAttr)
        and encoded.counts_width.data <= MAX_LOAD_BITS
    ):
        # Zero points change the values of weights.
        is_same = np.array_equal(encoded.array.reshape(weights.shape), weights)
        is_distance = 0 < encoded.delta.data <= MAX_LOAD_BITS
        unit = 1 if isinstance(encoded, CooAttr) else encoded.columns.data
        in_row = isinstance(encoded, CooAttr) or encoded.rows.data == 1
        if is_same and is_distance and in_row and channels % unit == 0:
            return encoded, unit
    return smallest_distances(weights), 1


def smallest_distances(weights: NDArray[np.generic]) -> CooAttr:
    """
    Encode weights as `#sparse.coo`, the distances between nonzero weights, with the width of
    distances in bits that needs the fewest bytes.
    """
    element = f32 if weights.dtype == np.float32 else i8
    return min((CooAttr.of(weights, element, w) for w in WIDTHS), key=lambda coo: coo.nbytes)


SPARSE_CONDITION = "MODEL_LANES == 16 && defined(__x86_64__)"

MAX_REGISTER_SUMS, INPUT_REGISTER = 28, 31
"""Registers of sums, and the register of inputs. Another register holds products."""

PRODUCT = 30

ORDER, LOW_BOUND, HIGH_BOUND = 28, 29, 30
"""Registers for the permutation to words of four outputs, and for the bounds."""

POSITION_ORDER = (0x0C080400, 0x0D090501, 0x0E0A0602, 0x0F0B0703)
"""The permutation of bytes of four packed vectors to the order of positions."""

MAX_CODE_PRODUCTS = 1 << 16
"""The maximum number of instructions with a weight in a layer: about 650 KB."""


@dataclass(frozen=True)
class NarrowSums:
    """
    The parameters that convert 32-bit sums to bytes: a bias and a right shift for each filter, and
    the bounds of the clamp.
    """

    biases: NDArray[np.int64]
    shifts: NDArray[np.int64]
    low: int
    high: int


@dataclass(frozen=True)
class Product:
    """
    An instruction of the sparse kernel. It adds the product of a weight (or of four int8 weights)
    and the input at `offset` to the sum of `filter`.
    """

    order: int
    offset: int
    """The offset of the input in the planes, in bytes."""
    filter: int
    weight: int
    """The 32 bits of the weight."""


def products(weights: NDArray[np.generic], planes: Planes) -> list[Product]:
    """
    Return the multiplications with nonzero weights, sorted by filter. In float, a multiplication
    has a weight. In int8, it has the word of four weights from `_words`.
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
    """
    Pack int8 weights `flat` [filters, products] into 32-bit words. A word has the four weights for
    the same offset in four adjacent planes (a plane is a channel of the input, see `planes.py`).

    Return the words [filters, count], and for each of the `count` words the offset of the input in
    the workspace, in words.
    """
    plane, offset = planes.places()
    places, inverse = np.unique(plane // 4 * planes.pitch + offset, return_inverse=True)
    words = np.zeros((len(flat), len(places), 4), np.int8)
    words[:, inverse, plane % 4] = flat
    return words.reshape(len(flat), -1).view(np.uint32), places


def product_count(weights: NDArray[np.generic], planes: Planes) -> int:
    """
    Return the number of instructions that multiply: one for each nonzero float weight, or one for
    each word of four int8 weights of adjacent channels that are not all zero.
    """
    if weights.dtype == np.float32:
        return int(np.count_nonzero(weights))
    return int(np.count_nonzero(_words(weights.reshape(len(weights), -1), planes)[0]))


def blocks(filters: int) -> list[range]:
    """
    Split the indices of `filters` filters into blocks of equal size, a multiple of four. The sums
    of a block fit the vector registers.
    """
    count = -(-filters // MAX_REGISTER_SUMS)
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
    narrow: NarrowSums | None,
) -> tuple[str, list[int]]:
    """
    Return the function in assembler for a block of filters at 16 output positions, and the 32-bit
    words of weights that it loads. `found` are the products of all filters, and `first` is the
    index of the first word in the array of all weights.

    The function stores sums as [filters, 16], or with `narrow`, the output stage to bytes, as
    [filters / 4, 16, 4]. With `ordered`, each float product is rounded before it is added.
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
        lines.append(f"vmovdqu32 {offset}(%[x]), %%zmm{INPUT_REGISTER}")
        for product in group:
            weight = f"{word(product.weight)}%{{1to16%}}"
            total = f"%%zmm{register[product.filter]}"
            if not is_float:
                lines.append(f"vpdpbusd {weight}, %%zmm{INPUT_REGISTER}, {total}")
            elif not ordered:
                lines.append(f"vfmadd231ps {weight}, %%zmm{INPUT_REGISTER}, {total}")
            else:
                lines.append(f"vmulps {weight}, %%zmm{INPUT_REGISTER}, %%zmm{PRODUCT}")
                lines.append(f"vaddps %%zmm{PRODUCT}, {total}, {total}")
    if narrow:
        at = word(POSITION_ORDER[0])
        words += POSITION_ORDER[1:]
        lines.append(f"vbroadcasti32x4 {at}, %%zmm{ORDER}")
        for bound, register_of in ((narrow.low, LOW_BOUND), (narrow.high, HIGH_BOUND)):
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
    """
    Return the assembler that narrows the sums in registers `first` to `first + 3` to bytes, clamps
    them, and stores them at byte offset `at`.
    """
    a, b, c, d = (f"%%zmm{first + i}" for i in range(4))
    return [
        f"vpackssdw {b}, {a}, {a}",
        f"vpackssdw {d}, {c}, {c}",
        f"vpacksswb {c}, {a}, {a}",
        f"vpmaxsb %%zmm{LOW_BOUND}, {a}, {a}",
        f"vpminsb %%zmm{HIGH_BOUND}, {a}, {a}",
        f"vpshufb %%zmm{ORDER}, {a}, {a}",
        f"vmovdqu32 {a}, {at}(%[sums])",
    ]


# Costs are cycles of a processor with vectors of 16 lanes, and instructions of a Cortex-M4. The
# coefficients were fitted to `benchmarks/sparse_kernels.py`, which also prints the share of zeros
# from which sparse code is faster.


SPARSE = "sparse"
"""The name of the kernel in reports."""

HOST_WORKSPACE, CORE_WORKSPACE = 256 * 1024, 24 * 1024
"""The default bytes of scratch memory for planes, on hosts and on microcontrollers."""

DENSE_BYTES, DENSE_FLOATS, DENSE_WINOGRAD = 62.0, 15.4, 27.0
"""Products per cycle of register tiles."""

CYCLES_PER_DOT, CYCLES_PER_FLOAT = 1.0, 2.1
"""Cycles of a product with 16 positions, including the loads of inputs."""

CYCLES_PER_BYTE, CYCLES_PER_WORD = 0.25, 0.6
"""Cycles of a result of bytes, and of a word of four elements that is stored in planes."""

CYCLES_PER_OUTPUT, CYCLES_PER_ELEMENT = 0.6, 1.0
"""Cycles of a float result, and of a float element that is stored in planes."""

CYCLES_PER_LOOSE_BYTE = 2.0
"""Cycles of a byte that is stored in planes, if the number of channels is no multiple of four."""

TILE, PER_TILE, PER_OUTPUT, PER_ELEMENT, PER_DECODED = 8, 45.0, 10.0, 6.0, 26.0
"""Positions at a time, and instructions per tile, output, element and decoded weight."""

PAIRED_ENTRY, PAIRED_TILE, PAIRED_WORD, PAIRED_PLACE, PAIRED_FILTER = 8.5, 52.0, 4.5, 24.0, 80.0
"""Instructions with paired positions: per entry, tile, word of a channel, place and filter."""

DENSE_INSTRUCTIONS = 0.9
"""Instructions per product of pairs; `linear_dsp.py` has a better model for 3x3 windows."""

PORTABLE_DENSE, PORTABLE_ENTRY = 8.3, 68.0
FLOAT_DENSE, FLOAT_ENTRY = 2.4, 26.0
"""Instructions per product, and per weight at eight positions: bytes without pairs, and floats."""


@dataclass(frozen=True)
class ModelledCycles:
    dense: float
    sparse: float


def host_cost(op: LinearOperation, weights: NDArray[np.generic]) -> ModelledCycles | None:
    """
    Return the modelled cycles of the dense and the sparse kernel of a layer on a processor with
    vectors of 16 lanes. Return `None` if the sparse kernel does not support the layer.
    """
    is_float = weights.dtype == np.float32
    planes = Planes.of(op, Geometry.of(op), 4 if is_float else 1, HOST_WORKSPACE)
    if planes is None:
        return None
    count = product_count(weights.reshape(len(weights), -1), planes.clustered(weights))
    if count > MAX_CODE_PRODUCTS:
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
    return ModelledCycles(op.macs / rate, sparse)


def _is_winograd(op: LinearOperation) -> bool:
    if not isinstance(op, Conv2dOp) or op.ordered is not None:
        return False
    plain = op.strides.get_values() == (1, 1) and op.dilations.get_values() == (1, 1)
    return plain and shape_of(op.weights)[1:3] == (3, 3)


def core_cost(
    op: LinearOperation, weights: NDArray[np.generic], *, has_pairs: bool, dense: float | None
) -> ModelledCycles | None:
    """
    Return the modelled instructions of the dense and the sparse kernel of a layer on a
    microcontroller, or `None` if the sparse kernel does not support it. `has_pairs` is whether a
    product computes two positions (SMLAL). If `dense` is given, it is the number for the dense
    kernel.
    """
    is_float = weights.dtype == np.float32
    planes = Planes.of(op, Geometry.of(op), 4 if is_float else 1, CORE_WORKSPACE)
    if planes is None:
        return None
    entries = np.count_nonzero(weights.reshape(len(weights), -1), axis=1)
    if has_pairs and (pairs := PairedPlanes.of(planes, CORE_WORKSPACE)) and not is_float:
        strips, near = planes.images * pairs.strips, pairs.near
        tiles = strips * near.strip * -(-near.columns // REGISTER_COLUMNS)
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
    return ModelledCycles(dense, sparse)
