"""Give constant weights with many zeros the encoding of the fastest kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects.graph import ConstantOp, LinearOperation, element_of
from ceras_ir.dialects.mem import CPU, device_of
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_unused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.backends.c.sparse_code import Cost
    from ceras_ir.dialects.sparse import Encoded

LEAST_ZEROS = 0.4
"""Share of zeros below which kernels for them are hardly ever faster."""

BLOCK = 4
"""Neighbouring weights that one dot product takes."""


@dataclass(frozen=True)
class ChooseEncodingsPass(NetworkPass):
    """
    Encode the constant weights of convolutions and matrix products on the CPU, if that is faster.

    They become `#sparse.coo` constants, or `#sparse.block` ones of 1x4 where those take fewer
    bytes, if the sparse kernel takes less time than the dense one by a model of both.

    Exact: constants keep every element, and sums of integers are the same in any order; those of
    floats have the order that the operation states, if any.
    """

    name = "choose-encodings"

    board: str | None = None
    """
    The microcontroller whose instructions are modelled; without one it is a processor with vectors
    of 16 lanes.
    """

    def change(self, main: FuncOp) -> None:
        for layer in list(main.body.block.ops):
            if not isinstance(layer, LinearOperation) or device_of(layer) not in (None, CPU):
                continue
            constant = layer.weights.owner
            if not isinstance(constant, ConstantOp) or constant.encoded or constant.is_elided:
                continue
            weights = constant.array()
            if (1 - float((weights != 0).mean())) < LEAST_ZEROS:
                continue
            cost = self.cost(layer, weights)
            if cost is None or cost.sparse >= cost.dense:
                continue
            value = smallest(weights)
            kind = TensorType(element_of(layer.weights), value.shape)
            new = ConstantOp(value, kind, location=constant.location)
            Rewriter.insert_op(new, InsertPoint.before(layer))
            layer.operands[1] = new.result
            erase_unused(constant)

    def cost(self, layer: LinearOperation, weights: NDArray[np.generic]) -> Cost | None:
        """Of both ways, where there is a sparse one."""
        from ceras_ir.backends.c.board import load_board
        from ceras_ir.backends.c.sparse_code import core_cost, host_cost

        if not _has_kernel(layer):
            return None
        if self.board is None:
            return host_cost(layer, weights)
        has_dsp = load_board(self.board).has_dsp
        return core_cost(
            layer, weights, has_pairs=has_dsp, dense=_dense_instructions(layer, has_dsp)
        )


def _has_kernel(layer: LinearOperation) -> bool:
    """Whether a sparse kernel could take the layer, its shape aside."""
    if layer.bias is not None and not isinstance(layer.bias.owner, ConstantOp):
        return False
    if not layer.is_quantized:
        return layer.weight_scale is None
    from ceras_ir.backends.c.linear_sparse import fits_sparse
    from ceras_ir.backends.c.sums import analyse
    from ceras_ir.backends.c.values import Refused

    try:
        return fits_sparse(layer, analyse(layer))
    except Refused:
        # The printer says it, with all other layers that have no C.
        return False


def _dense_instructions(layer: LinearOperation, has_dsp: bool) -> float | None:
    """Of the dense kernel of a core with pairs, where its model knows the layer."""
    from ceras_ir.backends.c.linear_dsp import cheapest, fits_dsp
    from ceras_ir.backends.c.sparse_code import CORE_WORKSPACE
    from ceras_ir.backends.c.sums import Geometry, analyse
    from ceras_ir.dialects.graph import Conv2dOp

    if not has_dsp or not layer.is_quantized or not isinstance(layer, Conv2dOp):
        return None
    geometry, sums = Geometry.of(layer), analyse(layer)
    if geometry.direct or geometry.depthwise or not fits_dsp(layer, geometry, sums):
        return None
    return cheapest(layer, geometry, sums, CORE_WORKSPACE, may_store=False).instructions


def smallest(weights: NDArray[np.generic]) -> Encoded:
    """The encoding of the fewest bytes that kernels read."""
    from ceras_ir.backends.c.sparse_code import WIDTHS, smallest_distances
    from ceras_ir.dialects.sparse import SparseBlockAttr

    found: list[Encoded] = [smallest_distances(weights)]
    if weights.shape[-1] % BLOCK == 0:
        element = found[0].type.element_type
        found += [SparseBlockAttr.of(weights, element, (1, BLOCK), width) for width in WIDTHS]
    return min(found, key=lambda encoded: encoded.nbytes)
