"""
Quantized convolutions and matrix products with listed weights on cores with SMLAL: a weight meets
two positions in one product, in the words of `planes.py`.

Sums and biases stay in 64-bit registers. Bytes are made of them there where a shift and a clamp are
all; other rescalings read the sums of a filter from memory.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.dsp_tiles import earlier
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_dsp import narrow, narrowed
from ceras_ir.backends.c.planes import FIELD, PairedPlanes, Planes
from ceras_ir.backends.c.sparse_code import SPARSE, SparseSource
from ceras_ir.backends.c.values import value_type, zero_point_of

MOST_AT_ONCE = 8
"""Entries between two looks at how many are left."""

ABOVE = 32 - FIELD
"""How far up sums of the first position lie in the low half of 64 bits."""

SCALE = 1 << ABOVE
"""What weights are multiplied by for that."""

PER_ENTRY, PER_LOOK = 8, 3
"""Instructions of an entry, and of such a look."""


@dataclass(frozen=True)
class _Finish:
    """What becomes of a filter's sums."""

    start: NDArray[np.int64]
    """What each filter's sum begins with."""
    element: str = "int32_t"
    """Of what is stored of a sum."""
    shift: int = 0
    shifts: tuple[int, ...] = ()
    """Of each filter, in place of one for all."""
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, of: IntegerLayer) -> "_Finish":
        """To bytes at once where that is a shift and a clamp, else the sums."""
        found = Epilogue.to_bytes(of.op, of.sums, of.rescale)
        if found is None:
            return cls(of.sums.bias)
        storage, start = value_type(of.op.result), of.sums.bias + found.extra
        return cls(start, storage, found.shift, found.shifts, found.low, found.high)

    @property
    def is_sum(self) -> bool:
        return self.element == "int32_t"

    def stored(self, layer: Layer, above: int) -> str:
        """What is stored of a sum that lies `above` bits up in `v`."""
        if self.is_sum:
            return f"v >> {above}" if above else "v"
        is_whole = self.high == 127 and self.low in (-128, 0)
        if is_whole and not self.shifts:
            return narrow(layer, "v", self.low, above + self.shift)
        shift = f"(shift + {above})" if self.shifts else above + self.shift
        if is_whole:
            return narrow(layer, f"v >> {shift}", self.low, 0)
        low, high = self.low, self.high
        return f"(v >>= {shift}, v < {low} ? {low} : v > {high} ? {high} : v)"


def sparse_pairs(of: IntegerLayer, planes: Planes) -> bool:
    """Print the layer; False, and nothing, where its sums, its shape or its inputs forbid pairs."""
    layer, op, finish = of.layer, of.op, _Finish.of(of)
    weights = of.sums.centred().astype(np.int64)
    largest = 128 * np.abs(weights).sum(1) + np.abs(finish.start)
    shifts = finish.shifts or (finish.shift,)
    if value_type(op.input) != "int8_t":
        return False
    if largest.max() >= 1 << (FIELD - 1) or max(shifts) >= FIELD:
        return False
    pairs = PairedPlanes.of(planes, layer.options.workspace)
    if pairs is None:
        return False
    _print(of, pairs, finish, np.ascontiguousarray(weights.astype(np.int8)))
    return True


def _print(
    of: IntegerLayer, pairs: PairedPlanes, finish: _Finish, weights: NDArray[np.int8]
) -> None:
    layer, op, near, whole = of.layer, of.op, pairs.near, pairs.whole
    layer.kernel = SPARSE
    outputs = len(weights)
    point = np.full(near.channels, zero_point_of(of.sums.x), np.int8)
    border = layer.array("border", point, "int8_t")
    start = layer.array("start", np.resize(finish.start, outputs).astype(np.int32), "int32_t")
    shift = "0"
    if finish.shifts:
        shift = f"{layer.array('shifts', np.array(finish.shifts, np.int8), 'int8_t')}[o]"
    source = SparseSource.of(layer, op, weights, pairs.taps(), scale=SCALE)
    count, column = _at_once(source.counts), 1 if finish.is_sum else outputs
    rows, columns = pairs.distance
    kernel = layer.kernels.use(
        "sparse_pairs",
        NAME=str(layer.index),
        COUNT=str(count),
        ROWS=str(near.strip),
        COLUMNS=str(near.columns),
        PITCH=str(pairs.pitch),
        ELEMENT=finish.element,
        NEAR=finish.stored(layer, ABOVE),
        NEXT=finish.stored(layer, 0),
        STEP="4" if near.columns % 4 == 0 else "(left < 4 ? left : 4)",
        ROW=str(whole.columns * column),
        COLUMN=str(column),
        FAR=str((rows * whole.columns + columns) * column),
    )
    layer.scratch("int32_t", "planes", pairs.words, 4)
    source.reserve(count)
    if finish.is_sum:
        layer.scratch("int32_t", "sums", pairs.positions, 4)
    x = of.x
    if near.images > 1:
        layer.line(f"for (int32_t image = 0; image < {near.images}; ++image)")
        x += f" + image * {prod((near.height, near.width, near.channels))}"
    layer.line(f"for (int32_t strip = 0; strip < {pairs.strips}; ++strip) {{")
    strip = whole.strip
    first = earlier(f"strip * {strip}", whole.rows, strip, whole.rows % strip == 0)
    layer.line(f"const int32_t first = {first};", 1)
    pairs.fill(layer, x, border)
    source.declare(1)
    image = f"image * {whole.rows} + " if near.images > 1 else ""
    layer.line(f"const int32_t base = ({image}first) * {whole.columns * outputs};", 1)
    layer.line(f"for (int32_t o = 0; o < {outputs}; ++o) {{", 1)
    layer.line(f"const int32_t n = {source.next_filter(near.channels, near.plane_columns)};", 2)
    to = "sums" if finish.is_sum else f"{of.y} + base + o"
    layer.line(f"{kernel}(planes, entries, n, {start}[o], {shift}, {to});", 2)
    if finish.is_sum:
        layer.line("int32_t at = base;", 2)
        layer.line(f"for (int32_t p = 0; p < {pairs.positions}; ++p, at += {outputs}) {{", 2)
        layer.block(replace(of, rescale=narrowed(of)).epilogue("sums[p]"), 3)
        layer.line("}", 2)
    for depth in (1, 0):
        layer.line("}", depth)


def _at_once(counts: NDArray[np.int64]) -> int:
    """How many entries stand in a row of code: few are made up, and few looks are taken."""

    def cost(count: int) -> int:
        turns = np.maximum(-(-counts // count), 1)
        return int((turns * (PER_ENTRY * count + PER_LOOK)).sum())

    return min(range(2, MOST_AT_ONCE + 1), key=cost)
