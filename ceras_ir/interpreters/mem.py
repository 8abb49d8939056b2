"""What the operations of the `mem` dialect mean, in numpy."""

import numpy as np
from numpy.typing import NDArray
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph import numpy_dtype, shape_of, tensor_type

Array = NDArray[np.generic]


def pack(x: Array) -> Array:
    """Channels into vectors of 16 lanes, as `mem.pack` documents."""
    blocks = -(-x.shape[-1] // mem.LANES)
    lanes = [(0, 0)] * (x.ndim - 1) + [(0, blocks * mem.LANES - x.shape[-1])]
    vectors = np.pad(x, lanes).reshape(*x.shape[:-1], blocks, mem.LANES)
    return np.ascontiguousarray(np.moveaxis(vectors, -2, 1 if x.ndim == 4 else 0))


def unpack(x: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `pack` for a plain shape."""
    vectors = np.moveaxis(x, 1 if len(shape) == 4 else 0, -2)
    lanes = vectors.reshape(*shape[:-1], -1)
    return np.ascontiguousarray(lanes[..., : shape[-1]])


@register_impls
class MemFunctions(InterpreterFunctions):
    @impl(mem.PackOp)
    def pack(self, interpreter: Interpreter, op: mem.PackOp, args: PythonValues):
        return (pack(args[0]),)

    @impl(mem.UnpackOp)
    def unpack(self, interpreter: Interpreter, op: mem.UnpackOp, args: PythonValues):
        return (unpack(args[0], shape_of(op.result)),)

    @impl(mem.LaunchOp)
    def launch(self, interpreter: Interpreter, op: mem.LaunchOp, args: PythonValues):
        """Buffers start as garbage, so that a kernel that leaves a gap shows."""
        outputs: list[Array] = []
        for result in op.outputs:
            kind = tensor_type(result)
            outputs.append(np.full(kind.get_shape(), 0x55, numpy_dtype(kind.element_type)))
        interpreter.call_op(op.kernel.string_value(), (*args, *outputs))
        return tuple(outputs)
