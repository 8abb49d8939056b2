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


def pack(x: Array, shape: tuple[int, ...]) -> Array:
    """Channels into vectors, as `mem.pack` documents, for a packed shape."""
    rows, lanes = _vector(shape, x.ndim)
    ends = [(0, -x.shape[0] % rows), *[(0, 0)] * (x.ndim - 2), (0, -x.shape[-1] % lanes)]
    padded = np.pad(x, ends)
    split = padded.reshape(-1, rows, *x.shape[1:-1], padded.shape[-1] // lanes, lanes)
    order = (0, 4, 2, 3, 1, 5) if x.ndim == 4 else (2, 0, 1, 3)
    return np.ascontiguousarray(split.transpose(order)).reshape(shape)


def windows(x: Array, op: mem.PackWindowsOp) -> Array:
    """Parts of an image side by side, before they are packed."""
    n, rows, columns, _ = op.plain_shape
    (kh, kw), (sh, sw), (top, left) = (
        extents.get_values() for extents in (op.kernel, op.strides, op.offset)
    )
    height, width, channels = x.shape[1:]
    down, across = (rows - 1) * sh + kh, (columns - 1) * sw + kw
    whole = np.full((n, down, across, channels), op.value.value.data, x.dtype)
    seen = x[:, : max(0, down - top), : max(0, across - left)]
    whole[:, top : top + height, left : left + width] = seen
    parts = np.lib.stride_tricks.sliding_window_view(whole, (kh, kw), (1, 2))[:, ::sh, ::sw]
    parts = parts.transpose(0, 1, 2, 4, 5, 3).reshape(n, rows, columns, -1)
    constants = np.array(op.constants.get_values(), x.dtype)
    added = np.broadcast_to(constants, (n, rows, columns, len(constants)))
    return np.concatenate([parts, added], axis=3)


def pack_tiles(x: Array, op: mem.PackTilesOp) -> Array:
    """Computed weights in tiles, as `mem.pack_tiles` documents."""
    plain = x if op.transposed is None else x.T
    n, k, *_, lanes = shape_of(op.result)
    padded = np.pad(plain, [(0, -extent % lanes) for extent in plain.shape])
    split = padded.reshape(n, lanes, k, lanes).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(split).reshape(shape_of(op.result))


def fold_zero_point(bias: Array, tiles: Array, zero_point: int) -> Array:
    """A bias without what a zero point contributes, as `mem.fold_zero_point` documents."""
    sums = tiles.astype(np.int64).sum(axis=(1, 2, 3, 5)) * zero_point
    blocks, lanes = sums.shape
    rows = sums.reshape(blocks, *(1,) * (bias.ndim - 2), lanes)
    return (bias.astype(np.int64) - rows).astype(bias.dtype)


def unpack(x: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `pack` for a plain shape."""
    split = x.reshape(*x.shape[: len(shape)], *_vector(x.shape, len(shape)))
    order = (0, 4, 2, 3, 1, 5) if len(shape) == 4 else (1, 2, 0, 3)
    vectors = split.transpose(order)
    padded = vectors.reshape(-1, *shape[1:-1], vectors.shape[-2] * vectors.shape[-1])
    return np.ascontiguousarray(padded[: shape[0], ..., : shape[-1]])


def _vector(packed: tuple[int, ...], rank: int) -> tuple[int, int]:
    """Rows and lanes in a packed shape of a tensor of this rank."""
    rows, lanes = (1, *packed[rank:])[-2:]
    return rows, lanes


@register_impls
class MemFunctions(InterpreterFunctions):
    @impl(mem.PackOp)
    def pack(self, interpreter: Interpreter, op: mem.PackOp, args: PythonValues):
        return (pack(args[0], shape_of(op.result)),)

    @impl(mem.PackWindowsOp)
    def pack_windows(self, interpreter: Interpreter, op: mem.PackWindowsOp, args: PythonValues):
        return (pack(windows(args[0], op), shape_of(op.result)),)

    @impl(mem.PackTilesOp)
    def pack_tiles(self, interpreter: Interpreter, op: mem.PackTilesOp, args: PythonValues):
        return (pack_tiles(args[0], op),)

    @impl(mem.FoldZeroPointOp)
    def fold_zero_point(
        self, interpreter: Interpreter, op: mem.FoldZeroPointOp, args: PythonValues
    ):
        return (fold_zero_point(args[0], args[1], op.zero_point.value.data),)

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
