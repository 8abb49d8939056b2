"""Build small networks, operation by operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, f32, i1, i8, i16, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ceras_ir.dialects.graph import (
    Cell,
    ConstantOp,
    Function,
    FunctionAttr,
    GraphOperation,
    IntegerNormalizeOp,
    IntegerSoftmaxOp,
    RecurrenceOp,
    numpy_dtype,
    shape_of,
)
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.mem import CPU, DEVICE, DeviceAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType, stored_dtype
from ceras_ir.network.function import declare_states
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

Array = NDArray[np.generic]

FUNCTIONS = (
    FunctionAttr(Function.SIGMOID),
    FunctionAttr(Function.TANH),
    FunctionAttr(Function.HARD_SIGMOID, (0.25, 0.5)),
)


@dataclass
class Network:
    """A function @main under construction."""

    arguments: Sequence[tuple[tuple[int, ...], Attribute]]
    block: Block = field(init=False)

    def __post_init__(self) -> None:
        self.block = Block(arg_types=[TensorType(e, s) for s, e in self.arguments])

    @property
    def inputs(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args)

    def constant(self, array: Array, element: Attribute = f32) -> SSAValue:
        return self.add(ConstantOp.from_array(array, element))

    def add(self, op: GraphOperation, device: str = CPU) -> SSAValue:
        self.block.add_op(op)
        if not isinstance(op, ConstantOp):
            op.attributes[DEVICE] = DeviceAttr(device)
        return op.results[0]

    def module(
        self, *outputs: SSAValue, strategy: str = "offsets", states: Mapping[str, str] | None = None
    ) -> ModuleOp:
        """
        Return the finished function, with an address for each value; inputs in `states` are
        outputs of the previous run.
        """
        self.block.add_op(ReturnOp(*outputs))
        kinds = ([a.type for a in self.block.args], [v.type for v in outputs])
        module = ModuleOp([FuncOp("main", kinds, Region(self.block))])
        declare_states(module, states or {})
        module.verify()
        assert strategy in ("offsets", "colouring", "slices")
        plan = AllocateBlocksPass(io=True, in_slices=True, target="nnet")
        if strategy != "slices":
            plan = AllocateBlocksPass(strategy=strategy, io=True)
        plan.apply(Context(), module)
        return module


def integer_softmax(net: Network, x: SSAValue, axis: int) -> SSAValue:
    """Compute probabilities in bytes."""
    table = np.rint(2.0**15 * np.exp(-np.arange(1000) / 64)).astype(np.int32)
    exponentials = net.constant(table, UniformType(2.0**-15, storage=i32))
    requant = RequantAttr(23, zero_point=-128)
    op = IntegerSoftmaxOp(x, exponentials, axis, UniformType(2.0**-8, -128), requant)
    return net.add(op)


def integer_normalize(
    net: Network, x: SSAValue, epsilon: int = 1 << 10, *, centred: bool
) -> SSAValue:
    """Normalize rows of 16 bits."""
    n, rng = shape_of(x)[-1], np.random.default_rng(0)
    scale = net.constant(
        rng.integers(-32767, 32768, n).astype(np.int16), UniformType(2.0**-14, storage=i16)
    )
    bias = net.constant(
        rng.integers(-(2**26), 2**26, n).astype(np.int32), UniformType(2.0**-26, storage=i32)
    )
    op = IntegerNormalizeOp(
        x,
        scale,
        bias,
        epsilon=epsilon,
        centred=centred,
        element=UniformType(2.0**-9, storage=i16),
        requant=RequantAttr(17, low=-32768, high=32767),
    )
    return net.add(op)


def recurrence(
    net: Network,
    kind: Cell,
    x: SSAValue,
    state: SSAValue,
    *,
    cell: SSAValue | None = None,
    biased: bool = True,
    integer: bool | Literal["dynamic"] = False,
    functions: Sequence[FunctionAttr] = FUNCTIONS,
) -> SSAValue:
    """
    Append a recurrent layer with seeded weights. Integer channels differ in scale; "dynamic"
    integers also have a zero point.
    """
    hidden, rng = shape_of(state)[1], np.random.default_rng(0)
    width = kind.gates * hidden
    exponents = scales = None
    if integer == "dynamic":
        weights = net.constant(rng.integers(-128, 128, (width, hidden)).astype(np.int8), i8)
        scales = (rng.uniform(0.001, 0.02, width).astype(np.float32).tolist(), -7)
    elif integer:
        most = min(127, (1 << 16) // hidden - 1)  # Sums must fit 32 bits.
        stored = rng.integers(-most, most + 1, (width, hidden)).astype(np.int8)
        weights = net.constant(stored, i8)
        exponents = (-14, [int(e) for e in rng.integers(-10, -5, width)])
    else:
        scale = 1.5 / np.sqrt(hidden)
        weights = net.constant(rng.normal(0, scale, (width, hidden)).astype(np.float32))
    bias = net.constant(rng.normal(0, 0.5, width).astype(np.float32)) if biased else None
    op = RecurrenceOp(
        kind,
        x,
        weights,
        state,
        functions[: kind.functions],
        cell=cell,
        bias=bias,
        exponents=exponents,
        scales=scales,
    )
    return net.add(op)


def random_array(shape: Sequence[int], element: Attribute, seed: int = 0) -> Array:
    """Draw values of all magnitudes, with extremes, and with ties if floats are rounded."""
    rng = np.random.default_rng(seed)
    if isinstance(element, UniformType):
        low, high = element.low, element.high
        values = rng.integers(low, high + 1, shape)
        values[rng.random(shape) < 0.2] = low
        values[rng.random(shape) < 0.2] = high
        return values.astype(stored_dtype(element.storage))
    if element == BYTE:
        return rng.integers(0, 256, shape, np.uint8)
    if element == i1:
        return rng.random(shape) < 0.5
    name = numpy_dtype(element).name
    if isinstance(element, IntegerType):
        limits = np.iinfo(name)
        values = rng.integers(-9 if limits.min else 0, 9, shape).astype(limits.dtype)
        values[rng.random(shape) < 0.3] = limits.max
        values[rng.random(shape) < 0.3] = limits.min
        return values
    values = rng.normal(0, 4, shape)
    return np.where(rng.random(shape) < 0.5, np.round(values * 2) / 2, values).astype(np.float32)
