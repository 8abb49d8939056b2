"""
Replace integer operations by float operations between DequantizeLinear and QuantizeLinear, for
targets that cannot compute the integers.

`fold-qdq` is the inverse: it derives integer operations from the same form, in the arithmetic of
the target.
"""

from dataclasses import dataclass
from math import log

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.storage import drop_statistics
from ceras_ir.support.diagnostics import remark
from ceras_ir.support.options import inherited
from ceras_ir.targets.protocol import Arithmetic
from ceras_ir.targets.registry import find_target
from ceras_ir.targets.shared_options import TargetNameOptions
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import needs_multiplier, scaling_factors
from ceras_ir.transforms.rebuilding import erase_dead, rebuild_linear

MAX_FACTOR_ERROR = 2.0**-20
"""The maximum relative difference between the factor of a requantization and that of the scales."""
SAME_BETA = 2.0**-16
"""The relative difference up to which the argument of a softmax has the factor 1."""


@dataclass(frozen=True)
class UnfoldQdqPass(TargetNameOptions, NetworkPass):
    """
    Replace each integer operation by `quantize(op(dequantize(...)))` on floats. The scales of the
    values do not change, and a clamp range becomes a clip.

    With `target`, the network is left unchanged if the target computes all of its operations. A
    target does not compute an operation if its arithmetic has no `kernels` and the operation has a
    kernel form, or if it has no `multipliers` and a scale is no power of two.

    A lookup table becomes the function in the attribute `graph.function`. An operation without a
    float form is left unchanged: other tables, data movement, and factors that contradict the
    scales.

    Not exact: `fold-qdq` and `quantize` round as the target does, and a result can differ by one
    unit. A note on stderr gives the number of operations.

    Before:

        %y = graph.requantize %x
            {requant = #graph.requant<multiplier = 1288490189, shift = 31, rounding = double_round,
            low = -128, high = 127>}
            : (tensor<4x!quant.uniform<i8:f32, 0.3>>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>

    After:

        %r = graph.dequantize %x : (tensor<4x!quant.uniform<i8:f32, 0.3>>) -> tensor<4xf32>
        %y = graph.quantize %r : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    """

    name = "unfold-qdq"

    target: str | None = inherited(TargetNameOptions, "target", None)
    """The target whose arithmetic decides; default: all operations are replaced."""

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        ops = [op for op in block.ops if isinstance(op, graph.GraphOperation)]
        if self.target is not None:
            arithmetic = find_target(self.target).arithmetic
            if not any(_exceeds(op, arithmetic) for op in ops):
                return
        unfolding = _Unfolding()
        count = sum(unfolding.replace(op) for op in ops)
        erase_dead(block)
        if count:
            counted = "1 operation is" if count == 1 else f"{count} operations are"
            remark(
                f"{self.name}: note: {counted} rounded as between Q/DQ, not as the kernels of "
                "TensorFlow Lite; each result can differ by a unit"
            )


def _exceeds(op: graph.GraphOperation, arithmetic: Arithmetic) -> bool:
    if op.has_kernel_form and not arithmetic.kernels:
        return True
    return needs_multiplier(op) and not arithmetic.multipliers


class _Unfolding:
    """
    Replaces integer operations one by one, in order, by float operations between dequantization and
    quantization.
    """

    def __init__(self) -> None:
        self.floats: dict[SSAValue, SSAValue] = {}

    def replace(self, op: graph.GraphOperation) -> bool:
        """
        Replace `op` and return True. Return False if it has no float form or is not quantized.
        """
        target = graph.quantized_element(op.output)
        if target is None or not self._has_float_form(op, target):
            return False
        value, clip = self._computed(op, target)
        if clip is not None:
            value = self._add(op, graph.UnaryOp(value, clip))
        op.output.replace_all_uses_with(self._add(op, graph.QuantizeOp(value, target)))
        return True

    @staticmethod
    def _has_float_form(op: graph.GraphOperation, target: UniformType) -> bool:
        if isinstance(op, graph.FixedPointSoftmaxOp):
            return _beta(op) is not None
        if isinstance(op, graph.LookupOp):
            return _tabulated(op) is not None and not op.has_pixel_input
        if isinstance(op, graph.QuantizeOp | graph.ResizeOp):
            return op.has_kernel_form
        requant = op.properties.get("requant")
        forms = graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp | graph.RequantizeOp
        if not isinstance(op, forms) or not isinstance(requant, RequantAttr):
            return False
        if requant.zero_point.data != target.zero_point:
            return False
        if isinstance(op, graph.LinearOperation) and op.table is not None:
            return False
        return all(
            abs(actual - expected) <= MAX_FACTOR_ERROR * expected
            for actual, expected in scaling_factors(op, requant)
        )

    def _computed(
        self, op: graph.GraphOperation, target: UniformType
    ) -> tuple[SSAValue, FunctionAttr | None]:
        """
        Return the result of `op` computed in float, and a clip that must follow because the float
        operation cannot include it, or `None`.
        """
        requant = op.properties.get("requant")
        clip = _clip(requant, target) if isinstance(requant, RequantAttr) else None
        match op:
            case graph.LinearOperation():
                return self._linear(op, clip), None
            case graph.BinaryOp():
                sides = self._real(op, op.lhs), self._real(op, op.rhs)
                new = graph.BinaryOp(op.function, *sides, result_element=f32, activation=clip)
                return self._add(op, new), None
            case graph.Pool2dOp():
                new = graph.Pool2dOp(
                    op.function,
                    self._real(op, op.input),
                    op.kernel.get_values(),
                    result_element=f32,
                    strides=op.strides.get_values(),
                    padding=op.padding.get_values(),
                    dilations=op.dilations.get_values(),
                    count_include_pad=op.includes_padding,
                )
                return self._add(op, new), clip
            case graph.FixedPointSoftmaxOp():
                return self._softmax(op), None
            case graph.LookupOp():
                function = _tabulated(op)
                assert function is not None
                return self._add(op, graph.UnaryOp(self._real(op, op.input), function)), None
            case graph.QuantizeOp():
                return op.input, None
            case graph.ResizeOp():
                real = self._real(op, op.input)
                _, height, width, _ = graph.shape_of(op.result)
                new = graph.ResizeOp(
                    op.function,
                    real,
                    (height, width),
                    op.factors,
                    op.coordinates.data,
                    op.rounding.data,
                )
                return self._add(op, new), None
            case _:
                return self._real(op, op.operands[0]), clip

    def _linear(self, op: graph.LinearOperation, clip: FunctionAttr | None) -> SSAValue:
        new = rebuild_linear(
            op,
            {"activation": clip, "requant": None, "residual_shift": None},
            input=self._real(op, op.input),
            weights=self._real(op, op.weights),
            bias=None if op.bias is None else self._real(op, op.bias),
            residual=None if op.residual is None else self._real(op, op.residual),
            element=f32,
        )
        return self._add(op, new)

    def _softmax(self, op: graph.FixedPointSoftmaxOp) -> SSAValue:
        value, beta = self._real(op, op.input), _beta(op)
        assert beta is not None
        if abs(beta - 1) > SAME_BETA:
            factor = graph.ConstantOp.from_array(np.array(beta, np.float32), location=op.location)
            product = graph.BinaryOp(
                graph.Binary.MUL, value, self._add(op, factor), result_element=f32
            )
            value = self._add(op, product)
        return self._add(op, graph.SoftmaxOp(value, len(graph.shape_of(value)) - 1))

    def _real(self, op: graph.GraphOperation, value: SSAValue) -> SSAValue:
        if value not in self.floats:
            self.floats[value] = self._add(op, graph.DequantizeOp(value))
        return self.floats[value]

    @staticmethod
    def _add(op: graph.GraphOperation, new: graph.GraphOperation) -> SSAValue:
        if not isinstance(new, graph.ConstantOp):
            new.location = op.location
            drop_statistics(new)
        Rewriter.insert_op(new, InsertPoint.before(op))
        return new.output


def _clip(requant: RequantAttr, target: UniformType) -> FunctionAttr | None:
    """
    Return the clip on real values that is equal to the clamp range of `requant`, or `None` if the
    clamp range is the range of the type `target`.
    """
    low, high = requant.low.data, requant.high.data
    if low <= target.low and high >= target.high:
        return None
    if low == target.zero_point and high >= target.high:
        return FunctionAttr(Function.RELU)
    bounds = [(q - target.zero_point) * target.scale for q in (low, high)]
    return FunctionAttr(Function.CLIP, bounds)


def _tabulated(op: graph.LookupOp) -> FunctionAttr | None:
    """
    Return the function that a lookup table approximates for all channels, or `None` if it is not
    recorded or differs between channels.
    """
    function = op.attributes.get(FUNCTION)
    return function if isinstance(function, FunctionAttr) and op.rows is None else None


def _beta(op: graph.FixedPointSoftmaxOp) -> float | None:
    """
    Return the factor by which the table of a softmax multiplies the argument, or `None` if the
    first two entries of the table do not determine it.
    """
    table = graph.constant_array(op.table)
    assert table is not None
    if not 0 < table[1] < table[0]:
        return None
    return log(float(table[0]) / float(table[1])) / graph.scale_of(op.input)
