"""Recognize softmax by its values, in whatever operations exporters spell it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.transforms.graph.formulas import Reals
from ceras_ir.transforms.graph.row_functions import replace_row_functions
from ceras_ir.transforms.network_pass import NetworkPass

NEAR = 2.0**-23
"""Relative difference of equal values: an ulp of float32."""


@dataclass(frozen=True)
class FuseSoftmaxPass(NetworkPass):
    """
    Replace operations that compute softmax along the last dimension by `graph.softmax`.

    Exponentials divided by their sum, with the maximum taken off or not, times a reciprocal, or
    as the exponential of what the logarithm of the sum is taken off. Operations are not compared
    but what they compute, in double precision. Off by the rounding of the parts; what is spelled
    without the maximum is finite for all rows afterwards.
    """

    name = "fuse-softmax"

    def change(self, main: FuncOp) -> None:
        replace_row_functions(main.body.block, Softmax())


class Softmax:
    """The one function of its family."""

    functions = (graph.Function.EXP,)

    def rows(self, length: int) -> Reals:
        """Rows of several sizes, around several numbers."""
        random = np.random.default_rng(0)
        sizes = np.array([0.0, 0.1, 1.0, 1.0, 4.0, 8.0])[:, None]
        offsets = np.array([0.0, -3.0, 0.5, 8.0, 0.0, 2.0])[:, None]
        return random.uniform(-1, 1, (len(sizes), length)) * sizes + offsets

    def other_rows(self, length: int) -> Reals:
        """Return rows with results from 1e-220 to 1, and with tiny, equal and large arguments."""
        random = np.random.default_rng(1)
        offsets = np.array([0.0, -300.0, -40.0, 40.0, 300.0])[:, None, None]
        sizes = 2.0 ** np.arange(-3, 9)[:, None]
        return (random.uniform(-1, 1, (5, 12, length)) * sizes + offsets).reshape(-1, length)

    def recognized(self, rows: Reals, values: Reals) -> Literal[True] | None:
        """Return whether `values` are the softmax of `rows`."""
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        alike = values.shape == rows.shape and (np.abs(values - expected) <= NEAR * expected).all()
        return True if alike else None

    def agrees(self, found: Literal[True], rows: Reals, values: Reals) -> bool:
        """Return whether `values` are the softmax of `rows`."""
        return self.recognized(rows, values) is found

    def built(self, argument: SSAValue, found: Literal[True]) -> Sequence[Operation]:
        """The operation."""
        return [graph.SoftmaxOp(argument, len(graph.shape_of(argument)) - 1)]
