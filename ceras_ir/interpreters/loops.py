"""What `graph.loop` and `graph.extract` mean, in numpy."""

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
from ceras_ir.dialects.graph.loops import packed_offsets

Array = NDArray[np.generic]


@register_impls
class LoopFunctions(InterpreterFunctions):
    """Who listens sees the loop and not its steps, which are no layers of the network."""

    @impl(graph.LoopOp)
    def loop(self, interpreter: Interpreter, op: graph.LoopOp, args: PythonValues):
        values = list(args)
        going = values.pop(0) if op.going is not None else None
        carried = tuple(values[: len(op.carried)])
        scanned = values[len(carried) : len(carried) + len(op.scanned)]
        captured = tuple(values[len(carried) + len(scanned) :])
        name, kinds, steps = op.function.sym_name.data, op.packed_types, op.step_count
        backwards = op.backwards.get_values()
        stacked = [
            np.empty(k.get_shape(), graph.numpy_dtype(k.element_type))
            for k in kinds[len(carried) :]
        ]
        listeners, interpreter.listeners = interpreter.listeners, ()
        try:
            step = 0
            while step < steps and (going is None or going.item()):
                # Where a value that is backwards has its element, and where any other has.
                at = (step, steps - 1 - step)
                elements = (
                    np.ascontiguousarray(v[at[back]])
                    for v, back in zip(scanned, backwards, strict=False)
                )
                number = np.array(step, np.int64)
                results = interpreter.call_op(name, (number, *carried, *elements, *captured))
                if going is not None:
                    going, *results = results
                carried = tuple(results[: len(carried)])
                made = zip(stacked, results[len(carried) :], backwards[len(scanned) :], strict=True)
                for whole, value, back in made:
                    whole[at[back]] = value
                step += 1
        finally:
            interpreter.listeners = listeners
        packed = np.zeros(graph.shape_of(op.result), np.int8)
        for start, array in zip(packed_offsets(kinds), (*carried, *stacked), strict=False):
            data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.int8)
            packed[start : start + data.size] = data
        return (packed,)

    @impl(graph.ExtractOp)
    def extract(self, interpreter: Interpreter, op: graph.ExtractOp, args: PythonValues):
        shape, dtype = graph.shape_of(op.result), graph.numpy_dtype(graph.element_of(op.result))
        count = int(np.prod(shape, dtype=np.int64))
        data = np.ascontiguousarray(args[0])
        return (np.frombuffer(data, dtype, count, op.start).reshape(shape),)
