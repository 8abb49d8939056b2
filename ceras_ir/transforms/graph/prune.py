"""Set small weights of convolutions and matrix products to zero."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import TYPE_CHECKING, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects.graph import ConstantOp, LinearOperation
from ceras_ir.network.function import main_function
from ceras_ir.transforms.rebuilding import erase_unused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PrunePass(ModulePass):
    """
    Set the constant float weights that matter least to zero. Biases stay.

    Not exact: products with a removed weight are missing from sums. Idempotent, since zeros are the
    least magnitudes there are.
    """

    name = "prune"

    method: Literal["magnitude"] = "magnitude"
    """magnitude: every weight with `|w| < threshold`."""
    threshold: float = 0.01
    """Magnitude below which weights become zero; S4 has 0.01."""
    sparsity: float | None = None
    """
    Instead of `threshold`: zero the least `floor(sparsity * size)` magnitudes of each layer, of
    equal ones the first.
    """

    def __post_init__(self) -> None:
        if isnan(self.threshold) or not 0.0 <= self.threshold < inf:
            raise ValueError(f"threshold must be at least 0 and finite, got {self.threshold}")
        if self.sparsity is not None and not 0.0 <= self.sparsity < 1.0:
            raise ValueError(f"sparsity must be in [0, 1), got {self.sparsity}")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pruned: dict[ConstantOp, ConstantOp] = {}
        for linear in list(main_function(op).body.block.ops):
            if not isinstance(linear, LinearOperation) or linear.is_quantized:
                continue
            constant = linear.weights.owner
            # Computed weights are not known; what is no float was quantized already.
            if not isinstance(constant, ConstantOp) or linear.weights.type != constant.value.type:
                continue
            if constant not in pruned:
                new = ConstantOp.from_array(self.kept(constant), location=constant.location)
                Rewriter.insert_op(new, InsertPoint.after(constant))
                pruned[constant] = new
            linear.operands[1] = pruned[constant].result
        for constant in pruned:
            erase_unused(constant)

    def kept(self, constant: ConstantOp) -> NDArray[np.float32]:
        """The weights of `constant`, zero where they matter least."""
        import numpy as np

        weights = constant.array().astype(np.float32)
        magnitudes = np.abs(weights).reshape(-1)
        if self.sparsity is None:
            small = magnitudes < self.threshold
        else:
            small = np.zeros(magnitudes.size, np.bool_)
            order = np.argsort(magnitudes, kind="stable")
            small[order[: int(self.sparsity * magnitudes.size)]] = True
        weights[small.reshape(weights.shape)] = 0
        return weights
