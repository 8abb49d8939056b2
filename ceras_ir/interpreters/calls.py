"""
Define functions, calls, loops, branches and `graph.extract` in numpy.

xDSL's definitions of functions are in a package that imports all dialects, which takes longer than
a small network.

Loops and branches are pure, so results are cached by functions and arrays. Passes use the same
samples, and levels are compared on the same inputs, so a loop of thousands of steps would otherwise
be repeated. Only calls from `main` are cached. Beyond `MAX_CACHED_BYTES`, the oldest results are
removed.
"""

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import func
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import PACKED_ALIGNMENT, called_functions
from ceras_ir.interpreters.float_functions import is_for_statistics


@register_impls
class FuncFunctions(InterpreterFunctions):
    """Interprets functions, calls and returns of the dialect `func`."""

    @impl_callable(func.FuncOp)
    def function(self, interpreter: Interpreter, op: func.FuncOp, args: PythonValues):
        return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)

    @impl(func.CallOp)
    def call(self, interpreter: Interpreter, op: func.CallOp, args: PythonValues):
        return interpreter.call_op(op.callee, args)

    @impl_terminator(func.ReturnOp)
    def end(
        self, interpreter: Interpreter, op: func.ReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        return ReturnedValues(args), ()


Array = NDArray[np.generic]

MAX_CACHED_BYTES = 1 << 28

MAX_CACHED_BODIES = 64
"""The number of cached lists of functions, with the constants."""


class RememberedCalls:
    """
    A cache of the results of loops and branches. They have no side effects, so that functions and
    operands determine the result.
    """

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
        """
        Return the packed result of `op` on the operands `arrays`, from the cache or from `compute`.
        A cached result is read-only. Only operations of `main` are cached.
        """
        caller = op.parent_op()
        if not isinstance(caller, FuncOp) or caller.sym_name.data != "main":
            return compute()
        properties = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
        # Calibration computes approximate results.
        mode = is_for_statistics()
        key = (op.name, self._number(op), properties, mode, *map(_digest, arrays))
        if (found := self.results.get(key)) is None:
            found = compute()
            found.flags.writeable = False
            self.results[key] = found
            self.size += found.nbytes
            while self.size > MAX_CACHED_BYTES:
                self.size -= self.results.pop(next(iter(self.results))).nbytes
        return found

    def _number(self, op: graph.CallingOperation) -> int:
        functions = [f for called in op.functions for f in (called, *called_functions(called))]
        for number, known in enumerate(self.bodies):
            if len(known) == len(functions) and all(
                a.is_structurally_equivalent(b) for a, b in zip(functions, known, strict=True)
            ):
                return number
        if len(self.bodies) == MAX_CACHED_BODIES:
            self.bodies.clear()
            self.results.clear()
            self.size = 0
        # A clone, because passes can modify the functions.
        self.bodies.append([function.clone() for function in functions])
        return len(self.bodies) - 1


def _digest(array: Array) -> Hashable:
    return array.dtype.str, array.shape, sha256(np.ascontiguousarray(array).data).digest()


@contextmanager
def _unheard(interpreter: Interpreter) -> Generator[None]:
    listeners, interpreter.listeners = interpreter.listeners, ()
    try:
        yield
    finally:
        interpreter.listeners = listeners


def _packed(op: graph.CallingOperation, arrays: Sequence[Array]) -> NDArray[np.int8]:
    packed, start = np.zeros(graph.shape_of(op.output), np.int8), 0
    for array in arrays:
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
        packed[start : start + data.size] = data
        start += -(-data.size // PACKED_ALIGNMENT) * PACKED_ALIGNMENT
    return packed


@register_impls
class CallFunctions(InterpreterFunctions):
    """
    Interprets operations that call functions: loops, branches and `graph.extract`. Listeners are
    notified of a loop, but not of the operations in each step.
    """

    def __init__(self) -> None:
        self.remembered = RememberedCalls()

    @impl(graph.LoopOp)
    def loop(self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues):
        return (self.remembered.get(op, args, lambda: self._loop(interpreter, op, args)),)

    def _loop(
        self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues
    ) -> NDArray[np.int8]:
        values = list(args)
        condition = values.pop(0) if op.condition is not None else None
        carried = tuple(values[: len(op.carried)])
        scanned = values[len(carried) : len(carried) + len(op.scanned)]
        captured = tuple(values[len(carried) + len(scanned) :])
        (body,), kinds, steps = op.functions, op.packed_types, op.step_count
        backwards = op.backwards.get_values()
        stacked = [
            np.empty(k.get_shape(), graph.numpy_dtype(k.element_type))
            for k in kinds[len(carried) :]
        ]
        step = 0
        with _unheard(interpreter):
            while step < steps and (condition is None or condition.item()):
                # The index of a forward, and of a backward value.
                at = (step, steps - 1 - step)
                elements = (
                    np.ascontiguousarray(v[at[back]])
                    for v, back in zip(scanned, backwards, strict=False)
                )
                number = np.array(step, np.int64)
                results = interpreter.call_op(body, (number, *carried, *elements, *captured))
                if condition is not None:
                    condition, *results = results
                carried = tuple(results[: len(carried)])
                rows = results[len(carried) :]
                for stack, value, back in zip(
                    stacked, rows, backwards[len(scanned) :], strict=True
                ):
                    stack[at[back]] = value
                step += 1
        return _packed(op, (*carried, *stacked))

    @impl(graph.BranchOp)
    def branch(self, interpreter: Interpreter, op: graph.BranchOp, args: PythonValues):
        return (self.remembered.get(op, args, lambda: self._branch(interpreter, op, args)),)

    def _branch(
        self, interpreter: Interpreter, op: graph.BranchOp, args: PythonValues
    ) -> NDArray[np.int8]:
        condition, *captured = args
        name = op.taken if condition.item() else op.other
        with _unheard(interpreter):
            results = interpreter.call_op(name.string_value(), tuple(captured))
        return _packed(op, results)

    @impl(graph.ExtractOp)
    def extract(self, interpreter: Interpreter, op: graph.ExtractOp, args: PythonValues):
        shape, dtype = graph.shape_of(op.result), graph.numpy_dtype(graph.element_of(op.result))
        count = int(np.prod(shape, dtype=np.int64))
        data = np.ascontiguousarray(args[0])
        return (np.frombuffer(data, dtype, count, op.start).reshape(shape),)
