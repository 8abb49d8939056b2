"""Build random chains of layers for VTA, with the integers that plain numpy expects."""

from dataclasses import dataclass, field, replace

import numpy as np
from backends.vta_lowering.layers import (
    INT8,
    Layer,
    by_channel,
    moved,
    network,
    random_array,
    residual_shifts,
    stored,
)
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, i16
from xdsl.ir import Block, SSAValue

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.rules.channel_constants import zero_point
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool, reciprocal_requant
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import Array

Int8 = NDArray[np.int8]


@dataclass(eq=False)
class Chain:
    """A network under construction: each value with its expected integers."""

    rng: np.random.Generator
    block: Block
    asymmetric: bool
    """Whether values have zero points."""
    values: list[tuple[SSAValue, Int8]] = field(default_factory=list[tuple[SSAValue, Int8]])

    @classmethod
    def start(cls, rng: np.random.Generator) -> "Chain":
        shape = (cls.pick(rng, 1, 2), cls.pick(rng, 4, 20), cls.pick(rng, 4, 20), 0)
        x = random_array(rng, (*shape[:3], cls.pick(rng, 1, 50)), extremes=rng.random() < 0.3)
        chain = cls(rng, Block(), bool(rng.random() < 0.4))
        kind = TensorType(stored(chain.point()), x.shape)
        chain.values.append((chain.block.insert_arg(kind, 0), x))
        return chain

    @staticmethod
    def pick(rng: np.random.Generator, low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def convolve(self) -> None:
        """
        Append a convolution of the last value, often with an earlier value of equal shape as the
        residual.
        """
        rng, (value, x) = self.rng, self.values[-1]
        _, h, w, c = x.shape
        kernel = self.pick(rng, 1, min(5, h, w))
        same = kernel % 2 == 1 and rng.random() < 0.7
        pad = kernel // 2 if same else 0
        stride = 1 if same else self.pick(rng, 1, 2)
        outputs = c if rng.random() < 0.5 else self.pick(rng, 1, 50)
        layer = Layer(
            x,
            random_array(rng, (outputs, kernel, kernel, c)),
            rng.integers(-3000, 3000, outputs).astype(np.int32) if rng.random() < 0.7 else None,
            strides=(stride, stride),
            padding=(pad, pad, pad, pad),
            requant=self.requant(outputs),
            points=(zero_point(value), 0),
        )
        shape = layer.expected().shape
        fitting = [pair for pair in self.values if pair[1].shape == shape]
        if fitting and rng.random() < 0.6:
            residual, added = fitting[self.pick(rng, 0, len(fitting) - 1)]
            alike = rng.random() < 0.7
            shift = self.pick(rng, 0, 9) if alike else residual_shifts(rng, outputs)
            points = layer.points[0], zero_point(residual)
            layer = replace(layer, residual=added, residual_shift=shift, points=points)
            self.append(layer.add_to(self.block, value, residual), layer.expected())
        else:
            self.append(layer.add_to(self.block, value, None), layer.expected())

    def pool(self) -> None:
        """Append maximum pooling without padding."""
        value, x = self.values[-1]
        k = self.pick(self.rng, 1, min(3, *x.shape[1:3]))
        s = self.pick(self.rng, max(1, k - 1), k)
        element = graph.element_of(value)
        op = graph.Pool2dOp(Pool.MAX, value, (k, k), strides=(s, s), result_element=element)
        self.block.add_op(op)
        windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))
        self.append(op.result, windows[:, ::s, ::s].max(axis=(-2, -1)))

    def group(self) -> None:
        """Append a depthwise convolution, or a convolution with a few groups."""
        rng, (value, x) = self.rng, self.values[-1]
        channels = x.shape[3]
        divisors = [g for g in range(2, channels + 1) if channels % g == 0] or [1]
        groups = channels if rng.random() < 0.5 else divisors[self.pick(rng, 0, len(divisors) - 1)]
        kernel = self.pick(rng, 1, min(5, *x.shape[1:3]))
        outputs = groups * self.pick(rng, 1, max(1, 60 // groups))
        stride, before, after = (self.pick(rng, 1, 2), *rng.integers(0, kernel, 2).tolist())
        layer = Layer(
            x,
            random_array(rng, (outputs, kernel, kernel, channels // groups)),
            rng.integers(-900, 900, outputs).astype(np.int32) if rng.random() < 0.7 else None,
            strides=(stride, stride),
            padding=(before, before, after, after),
            groups=groups,
            requant=self.requant(outputs),
            points=(zero_point(value), 0),
        )
        self.append(layer.add_to(self.block, value, None), layer.expected())

    def average(self) -> None:
        """
        Append average pooling over small windows or entire planes. The IR defines the division.
        """
        rng, (value, x) = self.rng, self.values[-1]
        whole = rng.random() < 0.5
        k = x.shape[1:3] if whole else (self.pick(rng, 1, min(4, *x.shape[1:3])),) * 2
        s = self.pick(rng, 1, 3)
        point = self.point()
        requant = moved(
            reciprocal_requant(k[0] * k[1], value, 0.5 * 2.0 ** self.pick(rng, -2, 1)), point
        )
        op = graph.Pool2dOp(
            Pool.AVERAGE, value, k, strides=(s, s), requant=requant, result_element=stored(point)
        )
        self.block.add_op(op)
        centred = x.astype(np.int64) - zero_point(value)
        windows = np.lib.stride_tricks.sliding_window_view(centred, k, axis=(1, 2))
        total = windows[:, ::s, ::s].sum(axis=(-2, -1)) * requant.multiplier.data
        half, shift = 1 << (requant.shift.data - 1), requant.shift.data
        self.append(op.result, np.clip((total + half >> shift) + point, -128, 127))

    def swish(self) -> None:
        """Append a pointwise convolution into 16 bits, and a shift swish."""
        rng, (value, x) = self.rng, self.values[-1]
        outputs, channels = self.pick(rng, 1, 40), x.shape[3]
        weights = random_array(rng, (outputs, 1, 1, channels))
        block = self.block
        block.add_op(constant := graph.ConstantOp.from_array(weights, INT8))
        low, high = (-32768, 32767) if rng.random() < 0.5 else (-3000, 2900)
        wide = RequantAttr(self.pick(rng, 0, 6), low=low, high=high)
        element = UniformType(0.125, storage=i16)
        conv = graph.Conv2dOp(value, constant.result, result_element=element, requant=wide)
        block.add_op(conv)
        rows = outputs if rng.random() < 0.5 else 1
        bends = rng.integers(0, 2 ** self.pick(rng, 1, 15), (rows, 5))
        last = RequantAttr(self.pick(rng, 0, 9))
        swish = graph.ShiftSwishOp(conv.result, bends.reshape(-1).tolist(), INT8, last)
        block.add_op(swish)
        half = 1 << wide.shift.data >> 1
        centred = x.astype(np.int64) - zero_point(value)
        total = centred @ weights[:, 0, 0].astype(np.int64).T + half
        q = np.clip(total >> wide.shift.data, low, high)
        m, (k0, k1, k2, k3, k4) = -np.abs(q), bends.T
        tail = np.minimum.reduce([(-m >> 3) - k2, (-m >> 4) - k3, (-m >> 6) - k4, 0 * m])
        dip = np.maximum.reduce([m >> 1, (m >> 2) - k0, 0 * m - k1, tail])
        result = np.maximum(q, 0) + dip + (1 << last.shift.data >> 1) >> last.shift.data
        self.append(swish.result, np.clip(result, -128, 127))

    def add(self) -> None:
        """Append the sum or difference of the last value and a value of the same shape."""
        rng, (value, x) = self.rng, self.values[-1]
        fitting = [pair for pair in self.values if pair[1].shape == x.shape]
        other, y = fitting[self.pick(rng, 0, len(fitting) - 1)]
        kind = graph.Binary.ADD if rng.random() < 0.7 else graph.Binary.SUB
        shifts = sorted((self.pick(rng, 0, 6), self.pick(rng, 0, 14)))
        left, right = shifts if rng.random() < 0.5 else shifts[::-1]
        point, low = self.point(), -128 + self.pick(rng, 0, 200)
        requant = moved(RequantAttr(self.pick(rng, 0, 12), low=low), point)
        op = graph.BinaryOp(
            *(kind, value, other),
            result_element=stored(point),
            shifts=(left, right),
            requant=requant,
        )
        self.block.add_op(op)
        first = x.astype(np.int64) - zero_point(value) << left
        second = y.astype(np.int64) - zero_point(other) << right
        total = first + (-second if kind is graph.Binary.SUB else second)
        half = 1 << requant.shift.data >> 1
        result = (total + half >> requant.shift.data) + point
        self.append(op.result, np.clip(result, requant.low.data, requant.high.data))

    def requant(self, channels: int) -> RequantAttr:
        low, high = ((-128, 127), (0, 127), (-50, 60), (3, 90))[self.pick(self.rng, 0, 3)]
        requant = moved(RequantAttr(self.pick(self.rng, 4, 14), low=low, high=high), self.point())
        if self.rng.random() < 0.6:
            return requant
        shifts = requant.shift.data + self.rng.integers(-4, 7, channels)
        return by_channel(requant, shifts.tolist())

    def point(self) -> int:
        """Return a zero point, often an extreme value."""
        if not self.asymmetric:
            return 0
        return int(self.rng.choice([-128, 127, 0, self.pick(self.rng, -128, 127)]))

    def append(self, value: SSAValue, array: Array) -> None:
        self.values.append((value, array.astype(np.int8)))


def random_chain(seed: int) -> tuple[ModuleOp, dict[str, Array], Int8]:
    """Return a network of two or three layers with a single output."""
    rng = np.random.default_rng(seed)
    chain = Chain.start(rng)
    for _ in range(chain.pick(rng, 2, 3)):
        others = [chain.pool, chain.group, chain.average, chain.add, chain.swish]
        steps = [chain.convolve] * 4 + others
        steps[chain.pick(rng, 0, len(steps) - 1)]()
    value, expected = chain.values[-1]
    return network(chain.block, value), {"input0": chain.values[0][1]}, expected


def random_board(rng: np.random.Generator) -> VtaBoard:
    """
    Return a board with buffers from an eighth to four times the usual size, within the limits of
    the encoding. The intrinsic has 1 to 4 rows and 4 to 32 lanes; in half of the boards it is the
    usual one.
    """
    while True:
        logs = rng.integers((8, 8, 7, 8), (14, 13, 12, 12)).tolist()
        uops, inp, wgt, acc = logs
        batch, block = (0, 4) if rng.random() < 0.5 else rng.integers((0, 2), (3, 6)).tolist()
        if inp >= acc and acc + inp + wgt <= 32 and 2 * uops + 37 <= 64:
            bus = int(2 ** rng.integers(2, 6))
            return VtaBoard(
                *("odd", uops, inp, wgt, acc), bus_bytes=bus, log_batch=batch, log_block=block
            )
