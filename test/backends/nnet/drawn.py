"""Draw random layers for the FPGA's circuits: zero points, shifts, windows, residuals, moves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from graph_networks import Network, random_array
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet import rules
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Binary,
    GraphOperation,
    Pool,
    Resize,
    integers,
    window_output,
)
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.transforms.rebuilding import rebuild_linear

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
NARROW = tuple(UniformType(0.5, storage=IntegerType(bits)) for bits in (8, 4, 2))
"""The types of small weights, which depend on the number of outputs."""
POINTS = (-128, 127, 0, -1, 77)
Window = tuple[tuple[int, int], tuple[int, int, int, int], tuple[int, int]]
"""Strides, padding, dilations."""


def function_tables(
    rng: np.random.Generator, rows: int | None, made: Float32Type | None
) -> DenseIntOrFPElementsAttr:
    """Return a random table of 256 entries, or `rows` tables, of int8 or floats."""
    shape = (256,) if rows is None else (rows, 256)
    if made is not None:
        entries = rng.normal(0, 4, shape).astype(np.float32)
        return DenseIntOrFPElementsAttr(TensorType(made, shape), BytesAttr(entries.tobytes()))
    stored = rng.integers(-128, 128, shape).astype(np.int8)
    return DenseIntOrFPElementsAttr(TensorType(i8, shape), BytesAttr(stored.tobytes()))


@dataclass
class Drawn:
    """
    Random layers that share only their inputs. With `by_channel`, convolutions and products have
    per-channel shifts.
    """

    seed: int
    by_channel: float = 0.0
    shape: tuple[int, int, int, int] = (2, 9, 10, 19)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.types = [UniformType(0.5, point) for point in POINTS]
        self.net = Network([(self.shape, element) for element in self.types])

    def module(self, count: int) -> ModuleOp:
        for _ in range(count):
            draw = [
                self.convolution, self.product, self.average, self.maximum, self.addition,
                self.lookup, self.movement,
            ]  # fmt: skip
            op = draw[int(self.rng.choice(7, p=[0.3, 0.15, 0.15, 0.08, 0.08, 0.09, 0.15]))]()
            self.net.add(op, FPGA)
            assert rules.why_not(op) is None, str(op)
        return self.net.module(*self.outputs())

    def outputs(self) -> list[SSAValue]:
        def is_layer(op: Operation) -> bool:
            return not isinstance(op, graph.ConstantOp | graph.ReshapeOp)

        return [op.results[0] for op in self.net.block.ops if is_layer(op)]

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def input(self) -> SSAValue:
        return self.net.inputs[self.pick(*range(len(POINTS)))]

    def result(self) -> UniformType:
        return UniformType(0.5, self.pick(*POINTS))

    def requant(
        self, element: UniformType, shift: int, multiplier: int | list[int] = 1
    ) -> RequantAttr:
        low, high = (-128, 127) if self.rng.random() < 0.7 else (-100, 50)
        mode = Rounding.HALF_UP if self.rng.random() < 0.6 else Rounding.HALF_EVEN
        point = element.zero_point
        return RequantAttr(
            shift, multiplier=multiplier, rounding=mode, zero_point=point, low=low, high=high
        )

    def rescaling(self, element: UniformType, outputs: int) -> RequantAttr:
        """
        Return mostly shifts to the right, from ties to shifts that leave no bits; and shifts to the
        left.
        """
        if self.rng.random() < self.by_channel:
            return self.channel_shifts(element, outputs)
        shift = self.pick(1, 2, 3, 5, 7, 9, 11, 13, 31, 32, 47, 0)
        return self.requant(
            element, shift, self.pick(1, 1, 1, 4) if shift else self.pick(1, 8, 256)
        )

    def channel_shifts(self, element: UniformType, outputs: int) -> RequantAttr:
        """
        Return equal multipliers, eight octaves of difference, on both sides, or the maximum
        difference.
        """
        base = self.pick(1, 3, 6, 9, 24, 39)
        low, high = ((base, base), (base, base + 8), (-8, 7), (-8, 21), (17, 47))[
            self.pick(*range(5))
        ]
        shifts = self.rng.integers(low, high + 1, outputs)
        shifts[self.rng.random(outputs) < 0.1] = low
        shifts[self.rng.random(outputs) < 0.1] = high
        shift = max(0, int(shifts.max())) + self.pick(0, 0, 0 if high == 47 else 1)
        return self.requant(element, shift, [1 << shift - int(s) for s in shifts])

    def weights(self, shape: Sequence[int]) -> tuple[SSAValue, SSAValue | None]:
        chosen, kind = self.rng.integers(-3, 4, shape).astype(np.int8), NARROW[shape[0] % 3]
        if self.rng.random() >= 0.6:
            chosen, kind = random_array(shape, INT8, self.seed), INT8
        bias = self.rng.integers(-3000, 3000, shape[0]).astype(np.int32)
        weights = self.net.constant(chosen.clip(kind.low, kind.high), kind)
        return weights, None if self.rng.random() < 0.3 else self.net.constant(bias, INT32)

    def residual(
        self, shape: Sequence[int], requant: RequantAttr
    ) -> tuple[SSAValue, list[int]] | tuple[None, None]:
        """Return the per-channel shifts of the residual, which follow those of `requant`."""
        shifts = np.broadcast_to(requant.net_shifts, shape[-1:])
        shifts = shifts - shifts.min() + self.pick(0, 3, 8)
        if self.rng.random() < 0.5 or shifts.max() > 16:
            return None, None
        kind = UniformType(0.25, self.pick(*POINTS))
        value = random_array(shape, kind, self.pick(1, 2, 3))
        return self.net.constant(value, kind), shifts.tolist()

    def window(self, *paddings: int) -> Window:
        """
        Return a window. It is entirely in the padding only if `paddings` are large, which pools
        refuse.
        """
        top, left, bottom, right = (self.pick(*paddings) for _ in range(4))
        strides = (self.pick(1, 2), self.pick(1, 2, 3))
        return strides, (top, left, bottom, right), (self.pick(1, 1, 2), self.pick(1, 2))

    def convolution(self) -> GraphOperation:
        element, outputs = self.result(), self.pick(1, 5, 16, 21, self.shape[3])
        groups = outputs if outputs == self.shape[3] else 1
        kernel = (outputs, self.pick(1, 2, 3), self.pick(1, 2, 3), self.shape[3] // groups)
        weights, bias = self.weights(kernel)
        s, p, d = self.window(0, 1) if self.rng.random() < 0.6 else self.window(0, 3, 4, 9)
        rows, columns = (
            window_output(self.shape[1 + i], p[i], p[2 + i], kernel[1 + i], s[i], d[i])
            for i in range(2)
        )
        requant = self.rescaling(element, outputs)
        residual, shift = self.residual((self.shape[0], rows, columns, outputs), requant)
        op = graph.Conv2dOp(
            self.input(), weights, bias, residual, result_element=element, requant=requant,
            residual_shift=shift, strides=s, padding=p, dilations=d, groups=groups,
        )  # fmt: skip
        return self.with_table(op, outputs)

    def product(self) -> GraphOperation:
        element, rows = self.result(), self.shape[0] * self.shape[1] * self.shape[2]
        flat = self.net.add(graph.ReshapeOp(self.input(), (rows, self.shape[3])))
        outputs = self.pick(3, 40)
        weights, bias = self.weights((outputs, self.shape[3]))
        if self.rng.random() < 0.3:
            weights = self.computed(rows, outputs)
        requant = self.rescaling(element, outputs)
        residual, shift = self.residual((rows, outputs), requant)
        op = graph.MatmulOp(
            flat, weights, bias, residual, result_element=element, requant=requant,
            residual_shift=shift,
        )  # fmt: skip
        return self.with_table(op, outputs)

    def computed(self, rows: int, outputs: int) -> SSAValue:
        """Return weights that are rows of the input without zero point."""
        x = self.net.inputs[POINTS.index(0)]
        flat = self.net.add(graph.ReshapeOp(x, (rows, self.shape[3])))
        start = (self.pick(0, rows - outputs), 0)
        return self.net.add(graph.SliceOp(flat, start, (outputs, self.shape[3]), (1, 1)))

    def with_table(self, op: graph.LinearOperation, outputs: int) -> graph.LinearOperation:
        """
        Return the operation, or the operation with a table of all channels or several, of bytes or
        floats.
        """
        if self.rng.random() < 0.5:
            return op
        made = f32 if self.rng.random() < 0.3 else None
        rows = self.rng.integers(0, count := self.pick(2, 16), outputs)
        by_channel = self.rng.random() < 0.5
        table = function_tables(self.rng, count if by_channel else None, made)
        listed = integers(rows.tolist()) if by_channel else None
        new = rebuild_linear(op, {"table": table, "rows": listed}, element=made)
        op.drop_all_references()
        return new

    def average(self) -> GraphOperation:
        element, kernel = self.result(), (self.pick(2, 3), self.pick(2, 4))
        taps = kernel[0] * kernel[1]
        shift = self.pick(3, 20)
        multiplier = 1 if shift == 3 else (1 << shift) // taps
        s, p, d = self.window(0, 0, 1)
        return graph.Pool2dOp(
            Pool.AVERAGE, self.input(), kernel, result_element=element, count_include_pad=True,
            requant=self.requant(element, shift, multiplier), strides=s, padding=p, dilations=d,
        )  # fmt: skip

    def maximum(self) -> GraphOperation:
        x = self.input()
        s, p, d = self.window(0, 0, 1)
        return graph.Pool2dOp(
            Pool.MAX, x, (3, 2), result_element=graph.element_of(x), strides=s, padding=p,
            dilations=d,
        )  # fmt: skip

    def addition(self) -> GraphOperation:
        element = self.result()
        shifts = (self.pick(0, 3, 22), self.pick(0, 1, 22))
        return graph.BinaryOp(
            Binary.ADD, self.input(), self.input(), result_element=element, shifts=shifts,
            requant=self.requant(element, max(0, max(shifts) + self.pick(-1, 0, 1))),
        )  # fmt: skip

    def lookup(self) -> GraphOperation:
        """Return a lookup with one or several tables, of bytes or floats."""
        made, count = f32 if self.rng.random() < 0.4 else None, self.pick(2, 4, 16)
        by_channel = self.rng.random() < 0.5
        table = function_tables(self.rng, count if by_channel else None, made)
        rows = self.rng.integers(0, count, self.shape[3]).tolist() if by_channel else None
        return graph.LookupOp(self.input(), table, made or self.result(), rows)

    def movement(self) -> GraphOperation:
        """Return a slice, also backwards; a transposed, a repeated, or a concatenated tensor."""
        x, (images, height, width, _) = self.input(), self.shape
        kind = self.pick(0, 0, 1, 2, 3)
        if kind == 0:
            starts = (self.pick(0, 1), self.pick(0, 2), self.pick(0, 3, width - 1), self.pick(0, 4))
            back = starts[2] == width - 1
            sizes = (images - starts[0], (height - starts[1]) // 2, 3, self.pick(1, 12, 15))
            return graph.SliceOp(x, starts, sizes, (1, self.pick(1, 2), -1 if back else 2, 1))
        if kind == 1:
            return graph.TransposeOp(x, [int(d) for d in self.rng.permutation(4)])
        if kind == 2:
            size = (height * (rows := self.pick(1, 2, 3)), width * (columns := self.pick(1, 2, 4)))
            return graph.ResizeOp(Resize.NEAREST, x, size, (float(rows), float(columns)))
        axis = self.pick(1, 2, 3)
        return graph.ConcatOp([x, x], axis)
