"""Discrete Fourier transforms of constant length: products with constant matrices."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import WHERE_COMPUTED, constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.model.windows import SpatialWindow
from ceras_ir.frontends.onnx.operators.convolution import convolved

MAX_WEIGHTS = 1 << 24
"""Elements of a matrix."""

constant_operands({"DFT": [1, 2]}, "length and axis must be constants", WHERE_COMPUTED)
constant_operands(
    {"STFT": [1, 2, 3]}, "step, window and length of a frame must be constants", "make them so"
)


@operator("DFT")
def dft(node: Node, emitter: Emitter) -> Value:
    """A product with a matrix of sines and cosines along an axis."""
    shape = emitter.shape(0)
    rank, parts = len(shape), shape[-1]
    if rank < 2 or parts not in (1, 2):
        raise node.wrong(f"a last dimension of 1 or 2, real and imaginary, got {list(shape)}")
    given = node.integer("axis", 1)
    if node.opset >= 20:
        given = emitter.integers(2)[0] if node.has_input(2) else -2
    axis = node.axis(given, rank)
    if axis == rank - 1:
        raise node.wrong("the last dimension is real and imaginary: there is no axis of it")
    inverse, half = node.flag("inverse"), node.flag("onesided")
    length = 2 * (shape[axis] - 1) if inverse and half else shape[axis]
    length = emitter.integers(1)[0] if node.has_input(1) else length
    if length < 1:
        raise node.wrong(f"a length of at least 1, got {length}")
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    last = emitter.transposed(emitter.value(0), order)
    used = min(length // 2 + 1 if inverse and half else length, shape[axis])
    taken = emitter.part(last, rank - 2, 0, used)
    count = length // 2 + 1 if half and not inverse else length
    matrix = _matrix(node, (count, used, parts), length, inverse=inverse)
    if inverse and half:
        # The other side adds as much, to the real part alone.
        both = [1.0 if 2 * k in (0, length) else 2.0 for k in range(used)]
        matrix = matrix[:, :1] * np.array(both, np.float32).reshape(-1, 1)
    results = matrix.shape[1]
    rows = emitter.reshaped(taken, (prod(shape_of_value(taken)) // (used * parts), used * parts))
    weights = emitter.constant(matrix.reshape(count * results, used * parts), "matrix")
    found = emitter.product(rows, weights)
    split = emitter.reshaped(found, (*shape_of_value(last)[:-2], count, results))
    return emitter.transposed(split, [order.index(i) for i in range(rank)])


@operator("STFT")
def stft(node: Node, emitter: Emitter) -> Value:
    """A convolution with windowed sines and cosines, whose stride is the step of frames."""
    shape = emitter.shape(0)
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3 or shape[2] not in (1, 2):
        raise node.wrong(f"a signal [N, L, 1 or 2] expected, got {list(shape)}")
    n, samples, parts = shape
    (step,) = emitter.integers(1)
    window = emitter.floats(2) if node.has_input(2) else None
    length = samples if window is None else len(window)
    length = emitter.integers(3)[0] if node.has_input(3) else length
    size = length if window is None else len(window)
    if length > samples:
        raise node.wrong(f"a frame of {length} samples does not fit a signal of {samples}")
    if step < 1 or not 1 <= size == length:
        raise node.unsupported(
            f"frames of {length} samples, every {step}, with a window of {size}; export it with "
            "windows as long as frames"
        )
    half = node.flag("onesided", True)
    if half and parts == 2:
        raise node.wrong("a complex signal has two sides: set onesided to 0")
    count = length // 2 + 1 if half else length
    matrix = _matrix(node, (count, length, parts), length, inverse=False)
    if window is not None:
        matrix = matrix * window.reshape(1, 1, length, 1)
    weights = emitter.constant(matrix.reshape(2 * count, 1, length, parts), "matrix")
    signal = emitter.reshaped(emitter.value(0), (n, 1, samples, parts))
    frames = SpatialWindow((1, length), (1, step), (0, 0, 0, 0), (1, 1))
    result = convolved(emitter, signal, weights, None, frames, 1)
    return emitter.reshaped(result, (n, 1 + (samples - length) // step, count, 2))


def _matrix(
    node: Node, sizes: tuple[int, int, int], length: int, *, inverse: bool
) -> NDArray[np.float32]:
    """[K, 2, N, P]: what element n, real or imaginary, adds to the parts of frequency k."""
    count, used, parts = sizes
    if 2 * count * used * parts > MAX_WEIGHTS:
        raise node.unsupported(
            f"a transform of {used} elements to {count}, by a matrix of more than 2^24 elements; "
            "compute the spectrum in the application"
        )
    # Whole turns are left out while numbers are integers.
    turns = np.outer(np.arange(count), np.arange(used)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], 1)
    if inverse:
        matrix = matrix / length
    return np.ascontiguousarray(matrix[..., :parts], dtype=np.float32)
