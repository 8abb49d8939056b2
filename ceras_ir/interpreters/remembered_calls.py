"""
Results of loops and branches of a network that were computed before.

They are pure: the same operation with the same functions has the same result on the same arrays.
Passes go through the samples one after the other, and levels are compared on the same inputs, where
a loop of thousands of steps is the same each time: its body stays float. Only what `main` calls is
remembered, not what is called on the way. The oldest results are forgotten beyond `LIMIT` bytes.
"""

from collections.abc import Callable, Hashable, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.interpreters.statistics_mode import is_for_statistics

Array = NDArray[np.generic]

LIMIT = 1 << 28
"""Bytes of results that are kept."""

BODIES = 64
"""Functions that are kept, with their constants."""


class RememberedCalls:
    """The results of calls by what they depend on."""

    def __init__(self) -> None:
        self.bodies: list[list[FuncOp]] = []
        self.results: dict[Hashable, NDArray[np.int8]] = {}
        self.size = 0

    def get(
        self,
        op: graph.CallingOperation,
        arrays: Sequence[Array],
        compute: Callable[[], NDArray[np.int8]],
    ) -> NDArray[np.int8]:
        """The result of `op` on arrays, which nobody may write to."""
        caller = op.parent_op()
        if not isinstance(caller, FuncOp) or caller.sym_name.data != "main":
            return compute()
        properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
        # What calibration computes has not all bits.
        mode = is_for_statistics()
        key = (op.name, self._number(op), properties, mode, *map(_digest, arrays))
        if (found := self.results.get(key)) is None:
            found = compute()
            found.flags.writeable = False
            self.results[key] = found
            self.size += found.nbytes
            while self.size > LIMIT:
                self.size -= self.results.pop(next(iter(self.results))).nbytes
        return found

    def _number(self, op: graph.CallingOperation) -> int:
        """The same for operations that call the same functions."""
        functions = [f for called in op.functions for f in (called, *called_functions(called))]
        for number, known in enumerate(self.bodies):
            if len(known) == len(functions) and all(
                a.is_structurally_equivalent(b) for a, b in zip(functions, known, strict=True)
            ):
                return number
        if len(self.bodies) == BODIES:
            self.bodies.clear()
            self.results.clear()
            self.size = 0
        # Passes may change the functions themselves.
        self.bodies.append([function.clone() for function in functions])
        return len(self.bodies) - 1


def _digest(array: Array) -> Hashable:
    return array.dtype.str, array.shape, sha256(np.ascontiguousarray(array).data).digest()
