"""What loops, branches and `graph.extract` mean, in numpy."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import PACKED_ALIGNMENT
from ceras_ir.interpreters.remembered_calls import RememberedCalls

Array = NDArray[np.generic]


@contextmanager
def _unheard(interpreter: Interpreter) -> Generator[None]:
    """Nobody listens to what is computed here."""
    listeners, interpreter.listeners = interpreter.listeners, ()
    try:
        yield
    finally:
        interpreter.listeners = listeners


def _packed(op: graph.CallingOperation, arrays: Sequence[Array]) -> NDArray[np.int8]:
    """The bytes of arrays, one after the other."""
    packed, start = np.zeros(graph.shape_of(op.output), np.int8), 0
    for array in arrays:
        data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
        packed[start : start + data.size] = data
        start += -(-data.size // PACKED_ALIGNMENT) * PACKED_ALIGNMENT
    return packed


@register_impls
class CallFunctions(InterpreterFunctions):
    """Who listens sees a loop and not its steps, which are no layers of the network."""

    def __init__(self) -> None:
        self.remembered = RememberedCalls()

    @impl(graph.LoopOp)
    def loop(self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues):
        return (self.remembered.get(op, args, lambda: self._loop(interpreter, op, args)),)

    def _loop(
        self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues
    ) -> NDArray[np.int8]:
        values = list(args)
        going = values.pop(0) if op.going is not None else None
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
            while step < steps and (going is None or going.item()):
                # Where a value that is backwards has its element, and where any other has.
                at = (step, steps - 1 - step)
                elements = (
                    np.ascontiguousarray(v[at[back]])
                    for v, back in zip(scanned, backwards, strict=False)
                )
                number = np.array(step, np.int64)
                results = interpreter.call_op(body, (number, *carried, *elements, *captured))
                if going is not None:
                    going, *results = results
                carried = tuple(results[: len(carried)])
                rows = results[len(carried) :]
                for whole, value, back in zip(
                    stacked, rows, backwards[len(scanned) :], strict=True
                ):
                    whole[at[back]] = value
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
