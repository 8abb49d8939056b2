"""
What the engine leaves out of each layer: blocks of 16 output channels by 16 products whose weights
are all zero (`runtime/zero_blocks.h`). The file holds them like any others.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import zero_points
from ceras_ir.pipeline.report import entries_of
from ceras_ir.transforms.memory.analysis.liveness import steps

BLOCK = 16


def skipped_share(op: graph.LinearOperation) -> float:
    """The share of its products that the engine skips."""
    weights = graph.constant_array(op.weights)
    grouped = isinstance(op, graph.Conv2dOp) and op.group_count != 1
    element = graph.quantized_element(op.weights)
    if weights is None or element is None or op.requant is None or grouped:
        return 0.0
    return _share_in_zero_blocks(weights != zero_points(element, weights.ndim))


def _share_in_zero_blocks(nonzero: NDArray[np.bool_]) -> float:
    rows = nonzero.reshape(len(nonzero), -1)
    ends = [(0, -extent % BLOCK) for extent in rows.shape]
    blocks = np.pad(rows, ends).reshape(-(-len(rows) // BLOCK), BLOCK, -1, BLOCK)
    high, wide = np.nonzero(~blocks.any(axis=(1, 3)))
    # Blocks at the ends have fewer weights.
    heights = np.minimum(BLOCK, rows.shape[0] - high * BLOCK)
    widths = np.minimum(BLOCK, rows.shape[1] - wide * BLOCK)
    return float((heights * widths).sum() / rows.size)


def annotate_skipped(layers: list[dict[str, object]], module: ModuleOp) -> None:
    """Add `skipped_products` to the entry of each layer that has such blocks."""
    ops = steps(main_function(module))
    for op, entry in zip(ops, entries_of(layers, ops), strict=True):
        if entry is None or not isinstance(op, graph.LinearOperation):
            continue
        if share := skipped_share(op):
            entry["skipped_products"] = round(share, 4)
