"""
What a layer costs dense and sparse: cycles of a processor with vectors of 16 lanes, instructions of
a Cortex-M4. Coefficients were fitted to `benchmarks/sparse_kernels.py`, which prints the crossover.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.paired_planes import COLUMNS, PairedPlanes
from ceras_ir.backends.c.planes import Planes
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sparse_code import MOST_PRODUCTS, product_count
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

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
"""Of a product in tiles of pairs; `dsp_costs.py` knows better for windows of 3x3."""

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
        tiles = strips * near.strip * -(-near.columns // COLUMNS)
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
