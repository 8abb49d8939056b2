"""
Compute the result that a quantized operation must store, for single elements, with fractions.

This file shares no code with the interpreter. It converts stored operands to exact real numbers,
computes the operation on these, and rounds a single time. This checks that shifts, biases and
residuals agree with the scales of the types.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import exp, floor, prod

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run

Stored = npt.NDArray[np.generic]
Index = tuple[int, ...]


def scale(value: SSAValue, where: Index = ()) -> Fraction:
    """Return the scale of a value, or of the element at `where` if the scales are per-channel."""
    element = graph.quantized_element(value)
    assert element is not None
    channel = where[element.axis.data] if isinstance(element.axis, IntAttr) else 0
    return Fraction(element.scales.data[channel].data)


def zero_point(value: SSAValue) -> int:
    element = graph.quantized_element(value)
    assert element is not None
    return 0 if element.is_per_axis else element.zero_point


def trace(module: ModuleOp, inputs: Mapping[str, Stored]) -> dict[SSAValue, Stored]:
    """Run the interpreter, and return the values of all operations."""
    values: dict[SSAValue, Stored] = {}

    def keep(op: Operation, results: tuple[Stored, ...]) -> None:
        values.update(zip(op.results, results, strict=True))

    run(module, inputs, keep)
    return values


def wrong_elements(
    op: Operation, values: Mapping[SSAValue, Stored], count: int, seed: int = 0
) -> Iterator[str]:
    """List the errors at the extremes and at `count` random elements of a requantized result."""
    got = values[op.results[0]]
    random = np.random.default_rng(seed)
    flat = [int(got.argmax()), int(got.argmin()), *random.integers(got.size, size=count).tolist()]
    for index in {tuple(int(i) for i in np.unravel_index(f, got.shape)): None for f in flat}:
        least, most = bounds(op, values, index)
        if not least <= int(got[index].item()) <= most:
            yield f"{op.name} at {index}: {got[index]} is not in [{least}, {most}]"


def bounds(op: Operation, values: Mapping[SSAValue, Stored], index: Index) -> tuple[int, int]:
    """Return the bounds of the stored results that the definition admits, usually equal."""

    def at(operand: SSAValue, where: Index) -> Fraction:
        return (int(values[operand][where].item()) - zero_point(operand)) * scale(operand, where)

    element = graph.quantized_element(op.results[0])
    assert element is not None
    low, high, slack = element.low, element.high, Fraction(0)
    match op:
        case graph.LinearOperation():
            assert op.requant is not None
            low, high = op.requant.low.data, op.requant.high.data
            total = Fraction(0) if op.bias is None else at(op.bias, index[-1:])
            if op.residual is not None:
                total += at(op.residual, index)
            for source, weight in taps(op, index):
                total += at(op.input, source) * at(op.weights, weight)
        case graph.BinaryOp():
            assert op.requant is not None
            low, high = op.requant.low.data, op.requant.high.data
            lhs, rhs = (at(v, broadcast(index, graph.shape_of(v))) for v in (op.lhs, op.rhs))
            total = {"add": lhs + rhs, "sub": lhs - rhs, "mul": lhs * rhs}[op.kind.data]
        case graph.RequantizeOp():
            low, high = op.requant.low.data, op.requant.high.data
            total = at(op.input, index)
        case graph.Pool2dOp():
            inside = [at(op.input, source) for source in window(op, index)]
            if op.kind.data == "max":
                total = max(inside)
            else:
                full = prod(op.kernel.get_values())
                total = sum(inside, Fraction(0)) / (full if op.includes_padding else len(inside))
                # The reciprocal is a fixed-point number, so that ties may round either way.
                slack = Fraction(1, 1 << 13)
        case graph.LookupOp():
            half = op.tables.shape[1] // 2
            stored = min(max(int(values[op.input][index].item()), -half), half - 1)
            total = Fraction(apply(op, float((stored - zero_point(op.input)) * scale(op.input))))
            slack = Fraction(1, 1 << 12)
        case graph.IntegerSoftmaxOp():
            axis, n = op.axis.value.data, graph.shape_of(op.input)[op.axis.value.data]
            row = [float(at(op.input, (*index[:axis], k, *index[axis + 1 :]))) for k in range(n)]
            powers = [exp(max(v - max(row), -700)) for v in row]
            total = Fraction(powers[index[axis]] / sum(powers))
            # The error is half a unit of the table for each element, and a unit of the reciprocal.
            slack = Fraction(n + 2, 1 << 16) / scale(op.result)
        case graph.IntegerNormalizeOp():
            total = normalized(op, [at(op.input, (*index[:-1], k)) for k in row_of(op)], index)
            factor = at(op.scale, index[-1:])
            total *= factor
            slack = (abs(total) / (1 << 13) + abs(factor) / (1 << 12)) / scale(op.result)
            total += at(op.bias, index[-1:])
        case _:
            raise AssertionError(op.name)
    quotient = total / scale(op.results[0])
    if isinstance(op, graph.LookupOp):
        slack = Fraction(1, 1000)
    # Sums of products round half up. The other operations round half to even with a zero point.
    points = [zero_point(value) for value in (*op.operands, *op.results)]
    even = any(points) and not isinstance(op, graph.LinearOperation)
    ends = (quotient + s for s in (-slack, slack))
    rounded = (round(end) if even else floor(end + Fraction(1, 2)) for end in ends)
    least, most = (min(max(end + points[-1], low), high) for end in rounded)
    return least, most


def row_of(op: graph.IntegerNormalizeOp) -> range:
    return range(graph.shape_of(op.input)[-1])


def normalized(op: graph.IntegerNormalizeOp, row: Sequence[Fraction], index: Index) -> Fraction:
    """Return (element - mean) / deviation, in double precision."""
    n, mean = len(row), sum(row, Fraction(0)) / len(row) if op.is_centred else Fraction(0)
    unit = (n if op.is_centred else 1) * Fraction(2) ** op.shift / scale(op.input)
    epsilon = op.epsilon.value.data / (n * unit * unit)
    variance = sum(((v - mean) ** 2 for v in row), Fraction(0)) / n
    return Fraction(float(row[index[-1]] - mean) / float(variance + epsilon) ** 0.5)


def taps(op: graph.LinearOperation, index: Index) -> Iterator[tuple[Index, Index]]:
    """List the positions in input and weights that contribute products to an element."""
    if not isinstance(op, graph.Conv2dOp):
        m, n = index
        for k in range(graph.shape_of(op.weights)[1]):
            yield (m, k), (n, k)
        return
    n, y, x, o = index
    _, height, width, _ = graph.shape_of(op.input)
    outputs, rows, columns, channels = graph.shape_of(op.weights)
    group = o // (outputs // op.group_count)
    strides, padding = op.strides.get_values(), op.padding.get_values()
    dilations = op.dilations.get_values()
    for i, j, c in product(range(rows), range(columns), range(channels)):
        row = y * strides[0] + i * dilations[0] - padding[0]
        column = x * strides[1] + j * dilations[1] - padding[1]
        if 0 <= row < height and 0 <= column < width:
            yield (n, row, column, group * channels + c), (o, i, j, c)


def window(op: graph.Pool2dOp, index: Index) -> Iterator[Index]:
    """List the positions inside the input that a pooling window covers."""
    n, y, x, c = index
    _, height, width, _ = graph.shape_of(op.input)
    kernel, strides = op.kernel.get_values(), op.strides.get_values()
    padding, dilations = op.padding.get_values(), op.dilations.get_values()
    for i, j in product(range(kernel[0]), range(kernel[1])):
        row = y * strides[0] + i * dilations[0] - padding[0]
        column = x * strides[1] + j * dilations[1] - padding[1]
        if 0 <= row < height and 0 <= column < width:
            yield n, row, column, c


def broadcast(index: Index, shape: Sequence[int]) -> Index:
    """Return the index of the operand element that NumPy broadcasts to `index` of the result."""
    tail = index[len(index) - len(shape) :]
    return tuple(0 if extent == 1 else i for i, extent in zip(tail, shape, strict=True))


def apply(op: graph.LookupOp, x: float) -> float:
    """Compute the function of a table, in double precision."""
    function = op.attributes["graph.function"]
    assert isinstance(function, graph.FunctionAttr)
    p = function.values

    def sigmoid(v: float) -> float:
        return 1 / (1 + exp(-v)) if v > -700 else 0.0

    match function.data.value:
        case "leaky_relu":
            return x if x >= 0 else p[0] * x
        case "sigmoid":
            return sigmoid(x)
        case "tanh":
            return 2 * sigmoid(2 * x) - 1
        case "swish":
            return x * sigmoid(x)
        case "hard_sigmoid":
            return min(max(p[0] * x + p[1], 0), 1)
        case "hard_swish":
            return x * min(max(x + 3, 0), 6) / 6
        case "exp":
            return exp(min(x, 700))
        case other:
            raise AssertionError(other)
