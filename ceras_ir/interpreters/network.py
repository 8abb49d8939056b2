"""
Run a network: the function `main` of a module on named arrays, at any level above machine code.

A `Tracer` sees the result of every operation as it is computed; calibration, per-layer
comparison and the memory-plan interpreter are tracers or nothing more than this.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Operation

from ceras_ir.dialects.graph import numpy_dtype, tensor_type
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import input_names, main_function, output_names
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]
Tracer: TypeAlias = Callable[[Operation, tuple[Array, ...]], None]


class _Trace(Interpreter.Listener):
    """Shows every result of an operation to a tracer."""

    def __init__(self, tracer: Tracer):
        self.tracer = tracer

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        if results:
            self.tracer(op, results)


def check_inputs(main: FuncOp, inputs: Mapping[str, Array]) -> list[Array]:
    """The arrays in argument order; a missing, unknown or misshapen one is an `InputError`."""
    names = input_names(main)
    if unknown := sorted(set(inputs) - set(names)):
        known = ", ".join(names) or "no inputs"
        raise InputError(f"no input named '{unknown[0]}'; the network has {known}")
    arrays: list[Array] = []
    for name, argument in zip(names, main.body.block.args, strict=True):
        if name not in inputs:
            raise InputError(f"input '{name}' is missing; got {', '.join(sorted(inputs))}")
        kind = tensor_type(argument)
        array, dtype = np.asarray(inputs[name]), numpy_dtype(kind.element_type)
        if array.shape != kind.get_shape():
            raise InputError(
                f"input '{name}' has shape {list(array.shape)}, expected {list(kind.get_shape())}"
            )
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"input '{name}' has type {array.dtype}, expected {dtype}")
        arrays.append(np.asarray(array, dtype, order="C"))
    return arrays


def run(
    module: ModuleOp, inputs: Mapping[str, Array], tracer: Tracer | None = None
) -> dict[str, Array]:
    """
    Run `main` once on arrays of exactly its argument shapes; results by name. What overflows or
    is divided by zero has the result that IEEE 754 gives it, without a warning.
    """
    main = main_function(module)
    arrays = check_inputs(main, inputs)
    listeners = () if tracer is None else (_Trace(tracer),)
    interpreter = interpreter_of(module, listeners)
    results = interpreter.call_op("main", tuple(arrays))
    return dict(zip(output_names(main), results, strict=True))
