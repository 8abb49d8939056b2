"""
Evaluate operations of the imported graph, and bound the difference to another implementation.

Bounds are computed on demand, because most values equal those of the reference. The module has the
rules of sums, products and reductions. The bound of products and sums is `gamma` of the number of
terms, times the sum of the magnitudes of the terms. The bound of softmax, normalizations and
recurrences follows from the arithmetic of their definition, step by step.
"""

from collections.abc import Callable, Sequence
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.driver.verify.real_values import UNIT, Array, Doubles, Real, gamma
from ceras_ir.driver.verify.rounding_rules import Applied, Called, error_of, is_float, moved, rule
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.interpreters.selection import coordinate
from ceras_ir.interpreters.windows import Window, convolve
from ceras_ir.support.diagnostics import node_name

MAX_RELATIVE = 16 * UNIT
"""Bounds that are relative to the elements, as in dequantization, need no product."""

BLOCK_STEPS = 127
"""The steps of 8 bits in the largest magnitude of a block of a quantized operand."""


@rule(graph.Conv2dOp, graph.MatmulOp)
def _linear(op: graph.LinearOperation, at: Applied) -> Doubles:
    if op.is_quantized or op.activation is not None or op.weight_scale is not None:
        return at.anything
    window = Window.of_operation(op) if isinstance(op, graph.Conv2dOp) else None

    def products(x: Array, weights: Array) -> Doubles:
        a = np.ascontiguousarray(x, np.float32)
        b = np.ascontiguousarray(weights, np.float32)
        if window is None or not isinstance(op, graph.Conv2dOp):
            return (a @ b.T).astype(np.float64)
        return convolve(a, b, window, op.group_count).astype(np.float64)

    x, weights, *addends = (
        np.abs(value if is_float(value) else value.astype(np.float64)) for value in at.operands
    )
    terms = prod(weights.shape[1:]) + len(addends)
    bound, own = products(x, weights), gamma(terms)
    (ex, relative_x), (ew, relative_w) = map(_split, at.errors[:2], (x, weights))
    own += relative_x + relative_w + relative_x * relative_w
    for addend in addends:
        bound += addend
    bound *= own + at.excess
    if ex is not None:
        bound += products(ex, weights)
    if ew is not None:
        bound += products(x + at.errors[0], ew)
    for error in at.errors[2:]:
        bound += error
    return bound


def _split(error: Doubles, magnitude: Doubles) -> tuple[Doubles | None, float]:
    """
    Express the error bounds of operands relative to `magnitude`, so that their product with the
    weights need not be computed: return (`None`, largest ratio), or (`error`, 0) if that ratio
    exceeds `MAX_RELATIVE`.
    """
    if not error.any():
        return None, 0.0
    ratio = float(np.where(error > 0, error / magnitude, 0.0).max())
    return (None, ratio) if ratio <= MAX_RELATIVE else (error, 0.0)


@rule(graph.BlockMatmulOp)
def _block_matmul(op: graph.BlockMatmulOp, at: Applied) -> Doubles:
    # Another implementation may quantize a block in another way, or not at all. Either is within
    # half a step of 8 bits, so that both differ by at most a step.
    x, error = np.abs(at.values[0]), at.errors[0]
    weights = np.abs(op.known_weights(x.shape[1]))
    starts = range(0, x.shape[1], op.block_size)
    largest = np.maximum.reduceat(x + error, starts, axis=1)
    step = np.repeat(largest / BLOCK_STEPS, op.block_size, axis=1)[:, : x.shape[1]]
    bound = (error + step + gamma(x.shape[1]) * (x + step)) @ weights.T.astype(np.float64)
    own = gamma(op.block_count + 2) * (bound + at.magnitudes)
    bias = 0.0 if op.bias is None else at.errors[1] + gamma(1) * np.abs(at.values[1])
    return bound + own + bias + at.excess * at.magnitudes


@rule(graph.BlockTakeOp)
def _block_take(op: graph.BlockTakeOp, at: Applied) -> Doubles:
    if at.errors[0].any():
        return at.anything
    return at.unit * at.magnitudes


@rule(graph.Pool2dOp)
def _pool(op: graph.Pool2dOp, at: Applied) -> Doubles:
    spread = moved(op, at)
    if op.function is Pool.MAX or not is_float(at.result):
        return spread
    terms = prod(Window.of_operation(op).kernel) + 2
    magnitudes = at.evaluation.evaluate(op, [np.abs(at.values[0]).astype(np.float32)])
    return spread + (gamma(terms) + at.excess) * magnitudes.astype(np.float64)


@rule(graph.ReduceOp)
def _reduce(op: graph.ReduceOp, at: Applied) -> Doubles:
    (x,), (error,), axes = at.values, at.errors, tuple(op.axes.get_values())
    is_real = is_float(at.result)
    terms = prod(x.shape[axis] for axis in axes)

    def total(array: Doubles) -> Doubles:
        return array.sum(axis=axes).reshape(at.result.shape)

    match op.function:
        case graph.Reduce.MAX | graph.Reduce.MIN:
            return error.max(axis=axes).reshape(at.result.shape)
        case graph.Reduce.SUM:
            own = (gamma(terms) + at.excess) * total(np.abs(x))
            return total(error) + own if is_real else total(error)
        case _:
            if not is_real:
                return np.where(total(error) > 0, inf, 0.0)
            relative = total(np.where(error > 0, error / np.abs(x), 0.0))
            own = gamma(terms) + at.excess
            return at.magnitudes * (np.expm1(relative) + own)


@rule(graph.ResizeOp)
def _resize(op: graph.ResizeOp, at: Applied) -> Doubles:
    spread = moved(op, at)
    if op.function is graph.Resize.NEAREST:
        return spread
    # The error of a rounded coordinate is a share of the difference of two elements.
    (x,), shape = at.values, at.result.shape
    step = 0.0
    for axis in (1, 2):
        last = coordinate(
            shape[axis] - 1, op.factors[axis - 1], x.shape[axis], shape[axis], op.coordinates.data
        )
        slope = np.abs(np.diff(x, axis=axis)).max(initial=0.0)
        step += 4 * UNIT * (abs(last) + 1) * float(slope)
    peak = float(np.abs(x).max(initial=0))
    return spread + step + 6 * at.unit * peak


@rule(graph.TreeEnsembleOp)
def _trees(op: graph.TreeEnsembleOp, at: Applied) -> Doubles:
    if at.errors[0].any():
        return at.anything

    def total(leaves: Doubles) -> Doubles:
        operands = [*at.operands[:-1], leaves.astype(np.float32)]
        return at.evaluation.evaluate(op, operands).astype(np.float64)

    own = gamma(len(at.operands[4])) * total(np.abs(at.values[-1]))
    return total(at.errors[-1]) + own + at.excess * at.magnitudes


@rule(graph.SoftmaxOp)
def _softmax(op: graph.SoftmaxOp, at: Applied) -> Doubles:
    # exp(x - max) has the rounding of the difference and of the function; then n terms are added.
    axis = op.axis.value.data
    x = at.values[0]
    below = x.max(axis=axis, keepdims=True) - x
    below = np.where(np.isfinite(below), below, 0.0)
    relative = 2 * at.errors[0].max(axis=axis, keepdims=True)
    own = gamma(x.shape[axis]) + at.unit * (10 + below + below.max(axis, keepdims=True))
    return at.magnitudes * (np.expm1(relative) + own)


@rule(graph.NormalizeOp)
def _normalize(op: graph.NormalizeOp, at: Applied) -> Doubles:
    x, scale, *bias = at.reals()
    centred = x - _mean(x) if op.is_centred else x
    square = _mean(centred * centred)
    if op.is_centred:
        # An implementation may subtract the square of the mean from the mean of squares.
        squares = np.mean(x.value**2, axis=-1, keepdims=True)
        square = Real(square.value, square.error + gamma(x.value.shape[-1]) * squares, square.unit)
    epsilon = Real.exactly(op.epsilon.value.data, at.unit)
    y = centred / (square + epsilon).sqrt() * scale
    return (y + bias[0] if bias else y).error


def _mean(x: Real) -> Real:
    extent = x.value.shape[-1]
    own = gamma(extent + 1) * np.mean(np.abs(x.value), axis=-1, keepdims=True)
    value = x.value.mean(axis=-1, keepdims=True)
    return Real(value, own + x.error.mean(axis=-1, keepdims=True), x.unit)


@rule(graph.RecurrenceOp)
def _recurrence(op: graph.RecurrenceOp, at: Applied) -> Doubles:
    if op.exponents is not None:
        return at.anything
    x, weights, h, *rest = at.reals()
    cell = rest.pop(0) if op.cell is not None else h
    bias = rest.pop(0) if op.bias is not None else None
    kind, width, functions = op.cell_kind, at.operands[2].shape[1], list(op.functions)
    one = Real.exactly(1.0, at.unit)
    if op.scales is not None:
        scales, point = op.scales
        column = np.broadcast_to(np.asarray(scales, np.float64), len(weights.value))[:, None]
        weights = Real((weights.value - point) * column, weights.error, at.unit)

    def product(state: Real, start: int = 0) -> Real:
        if op.scales is not None:
            state = _dynamically_quantized(state)
        w = np.abs(weights.value[start:]), weights.error[start:]
        value = state.value @ weights.value[start:].T
        spread = state.error @ w[0].T + (np.abs(state.value) + state.error) @ w[1].T
        own = (gamma(width + 2) + at.excess) * (np.abs(state.value) @ w[0].T)
        total = Real(value, spread + own, at.unit)
        return total if bias is None else total + _part(bias, start)

    bound = at.nothing
    for step in range(len(at.operands[0])):
        row = Real(x.value[step], x.error[step], x.unit)
        match kind:
            case graph.Cell.RNN:
                h = (row + product(h)).apply(functions[0])
            case graph.Cell.LSTM:
                total = row + product(h)
                i, o, f, c = (_part(total, k * width, width) for k in range(4))
                gate, candidate, output = functions
                cell = f.apply(gate) * cell + i.apply(gate) * c.apply(candidate)
                h = o.apply(gate) * cell.apply(output)
            case graph.Cell.GRU | graph.Cell.GRU_RESET_FIRST:
                gate, candidate = functions
                p = product(h)
                total = row + p
                z = _part(total, 0, width).apply(gate)
                r = _part(total, width, width).apply(gate)
                if kind is graph.Cell.GRU:
                    last = r * _part(p, 2 * width, width)
                else:
                    last = product(r * h, 2 * width)
                h = (one - z) * (_part(row, 2 * width, width) + last).apply(candidate) + z * h
        bound[step] = h.error
    if kind is graph.Cell.LSTM:
        bound[-1] = cell.error
    return bound


def _dynamically_quantized(state: Real) -> Real:
    """
    Return the state of a recurrence after quantization to 8 bits with a scale from the range. The
    bound of an element has a step more if the error reaches a tie, because another implementation
    may round to the adjacent integer.
    """
    low, high = min(state.value.min(), 0.0), max(state.value.max(), 0.0)
    step = (high - low) / 255 or 1.0
    apart = state.error.max(initial=0.0) + state.unit * (high - low)
    stored = state.value / step
    from_tie = np.abs(stored - np.floor(stored) - 0.5)
    is_open = from_tie * step <= 3 * apart
    return Real(state.value, np.where(is_open, step, 0.0) + 3 * apart, state.unit)


def _part(real: Real, start: int, width: int | None = None) -> Real:
    columns = slice(start, None if width is None else start + width)
    return Real(real.value[..., columns], real.error[..., columns], real.unit)


CONSTANT_UNITS = 4 * UNIT
"""
The rounding of a constant that the importer computes from several constants, such as a folded
scale.
"""

EXACT_BITS = 12
"""The largest number of bits before and after the point of constants without import rounding."""

NARROW_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The rounding of types that are narrower than float32."""


def unit_of(arrays: Sequence[Array]) -> float:
    """
    Return the relative rounding error of float32 results, plus that of the narrowest type in
    `arrays`, such as float16.
    """
    return UNIT + max((NARROW_UNITS.get(array.dtype.name, 0.0) for array in arrays), default=0.0)


class BoundedEvaluation:
    """
    The values of a module, computed by the interpreter, and for each value a bound of the
    difference from another implementation.
    """

    def __init__(self, module: ModuleOp, relative_error: Callable[[str], float | None]):
        """
        Prepare an evaluation. `relative_error` returns the relative error of a named constant of
        the model, or `None` if the constant is exact.
        """
        self.unit = UNIT
        self.values: dict[SSAValue, Array] = {}
        self.packed: dict[SSAValue, list[Doubles]] = {}
        self._errors: dict[SSAValue, Doubles] = {}
        self._settled = set[SSAValue]()
        """Values with known bounds, and values on which no bound depends."""
        self._relative_error = relative_error
        self._interpreter = interpreter_of(module)

    def set(self, value: SSAValue, array: Array, error: Doubles) -> None:
        """
        Replace a value by `array`, the value of the reference, with the bound `error`, an array or
        a scalar.
        """
        self.values[value], self._errors[value] = array, error
        self._settle(value)

    def _settle(self, value: SSAValue) -> None:
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
        """Evaluate `op` from the known operands, and store the result."""
        (result,) = op.results
        self.values[result] = self.evaluate(op, [self.values[operand] for operand in op.operands])

    def evaluate(self, op: Operation, operands: Sequence[Array]) -> Array:
        """Return the result of `op` for the given `operands`, without storing it."""
        (result,) = self._interpreter.run_op(op, tuple(operands))
        return np.asarray(result)

    def call(self, function: FuncOp, arguments: Called) -> Called:
        """
        Return the results of `function`, a function of the module, and their bounds. `arguments`
        are the values of the parameters and their bounds.
        """
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
        """
        Return the bound of each element of `value`. It is computed on demand from the bounds of
        values that were `set`.
        """
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
    """
    Return the largest ratio of an element of `apart`, a difference, to the magnitude of the element
    of `values` at the same index.
    """
    return float(np.where(apart > 0, apart / np.abs(values), 0.0).max(initial=0.0))


def lost(array: Array, dtype: np.dtype[np.generic]) -> Doubles:
    """
    Return the absolute rounding error of each element if `array` is converted to `dtype`. Only
    float64 arrays are considered; the result for other types is 0.
    """
    if array.dtype != np.float64:
        return np.zeros(())
    apart = array.astype(np.float64) - array.astype(dtype).astype(np.float64)
    return np.nan_to_num(np.abs(apart), nan=0.0)
