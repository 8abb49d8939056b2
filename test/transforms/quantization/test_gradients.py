"""Compare gradients of the float network with finite differences of the interpreter."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, f32, i1, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Block, Operation, Region, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Conv2dOp, Function, FunctionAttr, MatmulOp, Pool2dOp
from ceras_ir.dialects.graph.logic import Compare
from ceras_ir.dialects.graph.pooling import Pool, Resize
from ceras_ir.dialects.graph.selection import Pad
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function
from ceras_ir.transforms.quantization.analysis.sensitivity import gradients

Array = NDArray[np.generic]
Reals = NDArray[np.float64]

STEP = 1 / 32
"""The step of differences, longer than in `gradients`, to detect bends."""

PLACES = 40
"""The number of elements to compare per value."""


class Network:
    """A function of two maps and two rows under construction."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        shapes = [(1, 6, 7, 4), (1, 6, 7, 4), (3, 5), (2, 5)]
        self.block = Block(arg_types=[TensorType(f32, shape) for shape in shapes])
        self.map, self.other, self.rows, self.few = self.block.args

    def constant(self, *shape: int) -> SSAValue:
        array = self.random.normal(0, 0.5, shape).astype(np.float32)
        return self.add(graph.ConstantOp.from_array(array, f32))

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def conv(self, *weights: int, x: SSAValue | None = None, **options: Sequence[int] | int):
        kernel = self.constant(*weights)
        return self.add(Conv2dOp(x or self.map, kernel, result_element=f32, **options))  # pyright: ignore

    def clipped(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        function = FunctionAttr(Function.CLIP, (-0.5, 0.75))
        return self.add(kind(*operands, result_element=f32, activation=function))  # pyright: ignore

    def pool(self, kind: Pool, **options: Sequence[int] | int) -> SSAValue:
        return self.add(Pool2dOp(kind, self.map, (3, 2), result_element=f32, **options))  # pyright: ignore

    def binary(self, kind: Binary, *operands: SSAValue, function: Function | None = None):
        activation = None if function is None else FunctionAttr(function)
        op = graph.BinaryOp(kind, *operands, result_element=f32, activation=activation)
        return self.add(op)

    def unary(self, function: Function) -> SSAValue:
        return self.add(graph.UnaryOp(self.map, FunctionAttr(function)))

    def normalized(self, *, centred: bool) -> SSAValue:
        op = graph.NormalizeOp(self.map, self.constant(4), None, epsilon=1e-2, centred=centred)
        return self.add(op)

    def exponents(self) -> SSAValue:
        op = graph.UnaryOp(self.map, FunctionAttr(Function.SWISH))
        op.properties["input_exponents"] = DenseArrayBase.from_list(i64, [0, 1, -2, 0])
        op.properties["result_exponents"] = DenseArrayBase.from_list(i64, [0, 2, 0, -1])
        return self.add(op)

    def module(self, *ends: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(*ends))
        kinds = ([a.type for a in self.block.args], [v.type for v in ends])
        module = ModuleOp([FuncOp("main", kinds, Region(self.block))])
        module.verify()
        return module


def _residual(n: Network) -> SSAValue:
    op = Conv2dOp(n.map, n.constant(4, 1, 1, 4), n.constant(4), n.other, result_element=f32,
                  activation=FunctionAttr(Function.RELU))  # fmt: skip
    return n.add(op)


def _computed_weights(n: Network) -> SSAValue:
    return n.add(MatmulOp(n.rows, n.few, n.constant(2), result_element=f32))


def _transposed_convolution(n: Network) -> SSAValue:
    spread = graph.PadOp(Pad.CONSTANT, n.map, (0, 1, 1, 0), (0, 1, 1, 0), interior=(0, 1, 1, 0))
    return n.conv(2, 3, 3, 4, x=n.add(spread))


def _share(x: SSAValue) -> graph.UnaryOp:
    return graph.UnaryOp(x, FunctionAttr(Function.SIGMOID))


def _chain(n: Network) -> SSAValue:
    """Build a value with three consumers at different distances from the output."""
    first = n.conv(4, 3, 3, 4, padding=(1, 1, 1, 1))
    second = n.add(graph.UnaryOp(first, FunctionAttr(Function.SWISH)))
    third = n.conv(4, 3, 3, 1, x=second, padding=(1, 1, 1, 1), groups=4)
    total = n.binary(Binary.ADD, n.binary(Binary.MUL, third, second), first)
    return n.add(graph.ConcatOp([total, second], 3))


CASES: dict[str, Callable[[Network], SSAValue]] = {
    "pointwise": lambda n: n.conv(5, 1, 1, 4),
    "strides": lambda n: n.conv(3, 3, 2, 4, strides=(2, 3)),
    "padding": lambda n: n.conv(3, 3, 3, 4, padding=(1, 0, 2, 1)),
    "strides over padding": lambda n: n.conv(3, 3, 3, 4, padding=(2, 1, 0, 1), strides=(2, 2)),
    "dilations": lambda n: n.conv(3, 2, 3, 4, dilations=(3, 2), padding=(0, 1, 1, 0)),
    "groups": lambda n: n.conv(6, 3, 3, 2, groups=2, strides=(1, 2)),
    "one output a group": lambda n: n.conv(2, 3, 3, 2, groups=2),
    "depthwise": lambda n: n.conv(4, 3, 3, 1, groups=4, padding=(1, 1, 1, 1), strides=(2, 1)),
    "depthwise times two": lambda n: n.conv(8, 3, 3, 1, groups=4),
    "residual and relu": _residual,
    "clipped convolution": lambda n: n.clipped(Conv2dOp, n.map, n.constant(3, 2, 2, 4)),
    "transposed convolution": _transposed_convolution,
    "matmul": lambda n: n.clipped(MatmulOp, n.rows, n.constant(4, 5)),
    "computed weights": _computed_weights,
    "max": lambda n: n.pool(Pool.MAX, strides=(2, 1), padding=(1, 0, 1, 1)),
    "dilated max": lambda n: n.pool(Pool.MAX, dilations=(2, 3)),
    "average": lambda n: n.pool(Pool.AVERAGE, strides=(2, 2), padding=(1, 1, 0, 0)),
    "average with padding": lambda n: n.pool(
        Pool.AVERAGE, padding=(1, 1, 1, 0), count_include_pad=True
    ),
    "add and relu": lambda n: n.binary(Binary.ADD, n.map, n.other, function=Function.RELU),
    "sub of channels": lambda n: n.binary(Binary.SUB, n.map, n.conv(4, 6, 7, 4)),
    "mul by itself": lambda n: n.binary(Binary.MUL, n.map, n.map),
    "mul and tanh": lambda n: n.binary(Binary.MUL, n.map, n.constant(4), function=Function.TANH),
    "mul of a column": lambda n: n.binary(Binary.MUL, n.conv(1, 1, 1, 4), n.map),
    "div": lambda n: n.binary(Binary.DIV, n.map, n.add(_share(n.other))),
    "max of two": lambda n: n.binary(Binary.MAX, n.map, n.other),
    "swish": lambda n: n.unary(Function.SWISH),
    "leaky": lambda n: n.add(graph.UnaryOp(n.map, FunctionAttr(Function.LEAKY_RELU, (0.1,)))),
    "sigmoid": lambda n: n.unary(Function.SIGMOID),
    "softmax": lambda n: n.add(graph.SoftmaxOp(n.map, 2)),
    "normalize": lambda n: n.normalized(centred=True),
    "root mean square": lambda n: n.normalized(centred=False),
    "exp": lambda n: n.unary(Function.EXP),
    "hard swish": lambda n: n.unary(Function.HARD_SWISH),
    "exponents of channels": Network.exponents,
    "reshape": lambda n: n.add(graph.ReshapeOp(n.map, (2, 84))),
    "transpose": lambda n: n.add(graph.TransposeOp(n.map, (0, 3, 1, 2))),
    "concat": lambda n: n.add(graph.ConcatOp([n.map, n.other, n.map], 2)),
    "concat with a constant": lambda n: n.add(
        graph.ConcatOp([n.constant(1, 6, 7, 2), n.map], 3)
    ),
    "slice": lambda n: n.add(
        graph.SliceOp(n.map, (0, 1, 5, 0), (1, 5, 3, 2), (1, 1, -2, 2))
    ),
    "pad": lambda n: n.add(graph.PadOp(Pad.CONSTANT, n.map, (0, 1, 0, 0), (0, 0, 2, 1))),
    "reflecting pad": lambda n: n.add(graph.PadOp(Pad.REFLECT, n.map, (0, 2, 1, 0), (0, 1, 1, 0))),
    "resize": lambda n: n.add(graph.ResizeOp(Resize.NEAREST, n.map, (12, 21), (2.0, 3.0))),
    "smaller": lambda n: n.add(graph.ResizeOp(Resize.NEAREST, n.map, (3, 4), (0.5, 4 / 7))),
    "chain": _chain,
}  # fmt: skip


def evaluated(
    main: FuncOp,
    interpreter: Interpreter,
    start: Mapping[SSAValue, Array],
    forced: Mapping[SSAValue, Array],
) -> dict[SSAValue, Array]:
    """Return all values, with the values in `forced` replaced."""
    known = dict(start) | dict(forced)
    for op in main.body.block.ops:
        if op.results and op.results[0] not in forced:
            known[op.results[0]] = interpreter.run_op(op, tuple(known[v] for v in op.operands))[0]
    return known


def slopes(
    main: FuncOp,
    interpreter: Interpreter,
    start: Mapping[SSAValue, Array],
    value: SSAValue,
    seed: Reals,
) -> tuple[list[tuple[int, ...]], Reals, NDArray[np.bool_]]:
    """Return positions, differences of `sum(seed * output)`, and whether shorter steps agree."""
    last = main.body.block.last_op
    assert last is not None
    at = evaluated(main, interpreter, start, {})[value].astype(np.float32)

    def loss(place: tuple[int, ...], step: float) -> float:
        moved = at.copy()
        moved[place] += np.float32(step)
        found = evaluated(main, interpreter, start, {value: moved})[last.operands[0]]
        return float((seed * found.astype(np.float64)).sum())

    drawn: list[int] = np.random.default_rng(at.size).permutation(at.size)[:PLACES].tolist()
    corners: list[tuple[int, ...]] = list(np.ndindex(*at.shape))
    some = [corners[place] for place in drawn]
    long, short = (
        np.array([(loss(p, h) - loss(p, -h)) / (2 * h) for p in some]) for h in (STEP, STEP / 2)
    )
    return some, short, np.abs(long - short) < 0.005 * np.abs(short).max()


@pytest.mark.parametrize("case", CASES)
def test_differences(case: str) -> None:
    network = Network(len(case))
    module = network.module(CASES[case](network))
    main, random, interpreter = main_function(module), network.random, interpreter_of(module)
    start: dict[SSAValue, Array] = {
        argument: random.normal(0, 1, graph.shape_of(argument)).astype(np.float32)
        for argument in main.body.block.args
    }
    known = evaluated(main, interpreter, start, {})
    last = main.body.block.last_op
    assert last is not None
    (end,) = last.operands
    seed = random.choice((-1.0, 1.0), graph.shape_of(end))
    found = dict(
        gradients(
            main,
            known,
            {end: seed.astype(np.float32)},
            lambda op, operands: interpreter.run_op(op, tuple(operands))[0],
        )
    )
    read = {v for op in main.body.block.ops for v in op.operands}
    inside = {value for value in read if not isinstance(value.owner, graph.ConstantOp)}
    assert set(found) == inside
    for value in inside:
        places, expected, smooth = slopes(main, interpreter, start, value, seed)
        assert smooth.mean() > 0.7
        scale = np.abs(expected).max()
        assert scale > 0.1
        actual = np.array([found[value][place] for place in places])
        assert np.abs(actual - expected)[smooth].max() < 0.01 * scale, value


def test_without_a_rule_power_is_spread() -> None:
    """An operation without a rule distributes the power of the gradient evenly."""
    network = Network(0)
    end = network.add(graph.ReduceOp(graph.Reduce.PRODUCT, network.rows, (1,)))
    module = network.module(end)
    main, interpreter = main_function(module), interpreter_of(module)
    rows = np.arange(15, dtype=np.float32).reshape(3, 5)
    known = evaluated(main, interpreter, {network.rows: rows}, {})
    seed = np.linspace(-1, 2, 3, dtype=np.float32).reshape(3, 1)

    def run(op: Operation, operands: Sequence[Array]) -> Array:
        return interpreter.run_op(op, tuple(operands))[0]

    found = dict(gradients(main, known, {end: seed}, run))[network.rows]
    assert np.unique(np.abs(found)).size == 1
    assert np.square(found).sum() == pytest.approx(np.square(seed).sum(), rel=1e-5)


def test_bits_are_spread_too() -> None:
    """Masks that `and` combines are not floats, so no step can change them."""
    network = Network(0)
    masks = [
        network.add(graph.CompareOp(Compare.LESS, network.rows, network.constant(5))) for _ in "ab"
    ]
    both = network.add(graph.BinaryOp(Binary.AND, *masks, result_element=i1))
    module = network.module(network.add(graph.CastOp(both, f32)))
    main, interpreter = main_function(module), interpreter_of(module)
    known = evaluated(main, interpreter, {network.rows: np.zeros((3, 5), np.float32)}, {})

    def run(op: Operation, operands: Sequence[Array]) -> Array:
        return interpreter.run_op(op, tuple(operands))[0]

    end = main.body.block.last_op
    assert end is not None
    found = dict(gradients(main, known, {end.operands[0]: np.ones((3, 5), np.float32)}, run))
    assert all(np.isfinite(found[value]).all() for value in (both, *masks))


def test_hidden_scores_make_no_steps() -> None:
    """Two thirds of the elements are -10000, and the exponentials of the rest keep their slopes."""
    network = Network(0)
    end = network.add(graph.UnaryOp(network.rows, FunctionAttr(Function.EXP)))
    module = network.module(end)
    main, interpreter = main_function(module), interpreter_of(module)
    rows = np.full((3, 5), -1e4, np.float32)
    rows[0] = np.linspace(-2, 2, 5)
    known = evaluated(main, interpreter, {network.rows: rows}, {})

    def run(op: Operation, operands: Sequence[Array]) -> Array:
        return interpreter.run_op(op, tuple(operands))[0]

    found = dict(gradients(main, known, {end: np.ones((3, 5), np.float32)}, run))[network.rows]
    np.testing.assert_allclose(found, np.exp(rows), rtol=1e-3)
