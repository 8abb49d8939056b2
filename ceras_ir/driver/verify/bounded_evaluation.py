"""
Evaluate operations of the imported graph, and bound how far another implementation may be off.

Bounds are computed when they are asked for, since most values equal those of the reference.
"""

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.driver.verify.rounding import calls, elements, sums
from ceras_ir.driver.verify.rounding.real import UNIT, Array, Doubles
from ceras_ir.driver.verify.rounding.rules import Applied, Called, error_of
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.support.diagnostics import node_name

RULES = elements, sums, calls
"""The modules that register rules of rounding."""

CONSTANT_UNITS = 4 * UNIT
"""Rounding of a constant that the importer computes of several, such as a folded scale."""

EXACT_BITS = 12
"""Bits on either side of the point of numbers that the importer cannot have rounded."""

NARROW_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The rounding of types that are narrower than float32."""


def unit_of(arrays: Sequence[Array]) -> float:
    """The relative rounding of results of float32 and of the types of `arrays`."""
    return UNIT + max((NARROW_UNITS.get(array.dtype.name, 0.0) for array in arrays), default=0.0)


class BoundedEvaluation:
    """Values of a module and their bounds."""

    def __init__(self, module: ModuleOp, relative_error: Callable[[str], float | None]):
        """`relative_error` gives that of a constant of the model, None for other names."""
        self.unit = UNIT
        self.values: dict[SSAValue, Array] = {}
        self.packed: dict[SSAValue, list[Doubles]] = {}
        self._errors: dict[SSAValue, Doubles] = {}
        self._settled = set[SSAValue]()
        """Values with known bounds, and values that no bound depends on."""
        self._relative_error = relative_error
        self._interpreter = interpreter_of(module)

    def set(self, value: SSAValue, array: Array, error: Doubles) -> None:
        """Replace a value by that of the reference; the error may be one number for all."""
        self.values[value], self._errors[value] = array, error
        self._settle(value)

    def _settle(self, value: SSAValue) -> None:
        """Remove operands of a value on which no other bound depends."""
        self._settled.add(value)
        left = [value]
        while left:
            op = left.pop().owner
            for operand in op.operands if isinstance(op, Operation) else ():
                users = (use.operation for use in operand.uses)
                done = all(self._settled.issuperset(user.results) for user in users)
                if not done or operand not in self.values:
                    continue
                del self.values[operand]
                self._errors.pop(operand, None)
                self.packed.pop(operand, None)
                if operand not in self._settled:
                    self._settled.add(operand)
                    left.append(operand)

    def compute(self, op: Operation) -> None:
        """Evaluate an operation of values that are known."""
        (result,) = op.results
        self.values[result] = self.evaluate(op, [self.values[operand] for operand in op.operands])

    def evaluate(self, op: Operation, operands: Sequence[Array]) -> Array:
        """The result of an operation of any operands."""
        (result,) = self._interpreter.run_op(op, tuple(operands))
        return np.asarray(result)

    def call(self, function: FuncOp, arguments: Called) -> Called:
        """The results of a function of the module, and their bounds."""
        block = function.body.block
        values: dict[SSAValue, Array] = dict(zip(block.args, arguments[0], strict=True))
        errors: dict[SSAValue, Doubles] = dict(zip(block.args, arguments[1], strict=True))
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            bounds = [errors[operand] for operand in op.operands]
            if isinstance(op, ReturnOp):
                return operands, bounds
            (result,) = op.results
            values[result] = self.evaluate(op, operands)
            errors[result] = self._error(op, operands, bounds, values[result])
        raise AssertionError("a function ends with a return")

    def error_of(self, value: SSAValue) -> Doubles:
        """The bound of a value, from those of values that were set."""
        left = [value]
        while left:
            if left[-1] in self._errors:
                left.pop()
                continue
            op = left[-1].owner
            assert isinstance(op, Operation)
            missing = [operand for operand in op.operands if operand not in self._errors]
            left += missing
            if missing:
                continue
            operands = [self.values[operand] for operand in op.operands]
            bounds = [self._errors[operand] for operand in op.operands]
            result = left.pop()
            self._errors[result] = self._error(op, operands, bounds, self.values[result])
        return self._errors[value]

    def _error(
        self, op: Operation, operands: list[Array], errors: list[Doubles], result: Array
    ) -> Doubles:
        if isinstance(op, graph.ConstantOp):
            return self._constant_error(op, result)
        pairs = zip(errors, operands, strict=True)
        bounds = [np.broadcast_to(error, operand.shape) for error, operand in pairs]
        return error_of(op, Applied(operands, bounds, result, self.unit, self))

    def _constant_error(self, op: graph.ConstantOp, array: Array) -> Doubles:
        if array.dtype.kind != "f":
            return np.zeros(())
        values: Doubles = array.astype(np.float64)
        if (known := self._relative_error(node_name(op))) is not None:
            return known * np.abs(values) if known else np.zeros(())
        scaled = np.ldexp(values, EXACT_BITS)
        exact = (scaled == np.rint(scaled)) & (np.abs(scaled) < 2.0 ** (2 * EXACT_BITS))
        return np.where(exact, 0.0, CONSTANT_UNITS * np.abs(values))


def relative(apart: Doubles, values: Doubles) -> float:
    """The largest of `apart`, relative to each of `values`."""
    return float(np.where(apart > 0, apart / np.abs(values), 0.0).max(initial=0.0))


def lost(array: Array, dtype: np.dtype[np.generic]) -> Doubles:
    """What is lost when an array becomes one of a type that is not as wide."""
    if array.dtype != np.float64:
        return np.zeros(())
    apart = array.astype(np.float64) - array.astype(dtype).astype(np.float64)
    return np.nan_to_num(np.abs(apart), nan=0.0)
