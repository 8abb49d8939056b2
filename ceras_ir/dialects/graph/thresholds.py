"""Comparison with thresholds per channel, which computes any monotone function of few levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, IntegerType, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.constant import constant_array
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    element_of,
    expect_shape,
    quantized_element,
    shape_of,
    type_with_element,
)
from ceras_ir.dialects.quant import UniformType


@irdl_op_definition
class ThresholdOp(GraphOperation):
    """
    Count the thresholds that an element reaches, with thresholds for each channel (index of the
    last axis):

    `result[..., c] = offset[c] + step[c] * (number of k with input[..., c] >= thresholds[k, c])`

    `thresholds` is a constant [K, C], or [K, 1] for all channels, in ascending order along k.
    `offset` and `step` have a single integer, or an integer per channel. The input is stored in 32
    bits and the thresholds are i32, or both are f32. NaN reaches no threshold. After
    `MultiThreshold` of FINN.

        %t = graph.constant dense<[[-4, 2], [0, 9]]> : tensor<2x2xi32> : tensor<2x2xi32>
        %y = graph.threshold %x, %t {offset = array<i64: -1, 1>, step = array<i64: 1, -1>}
            : (tensor<3x2x!quant.uniform<i32:f32, 0.25>>, tensor<2x2xi32>)
            -> tensor<3x2x!quant.uniform<i2:f32, 1.0>>
    """

    name = "graph.threshold"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    thresholds = operand_def(TensorType)
    offset = prop_def(DenseArrayBase.constr(i64))
    step = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$input `,` $thresholds attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        input: SSAValue,
        thresholds: SSAValue,
        element: Attribute,
        offset: Sequence[int],
        step: Sequence[int],
    ):
        super().__init__(
            operands=[input, thresholds],
            result_types=[type_with_element(input, element)],
            properties={"offset": integers(offset), "step": integers(step)},
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    @property
    def depends_on_channel(self) -> bool:
        return True

    @property
    def keeps_channels(self) -> bool:
        return False

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The result of an element below all thresholds: [1] or [C]."""
        return np.array(self.offset.get_values(), np.int64)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The integer that each reached threshold adds: [1] or [C]."""
        return np.array(self.step.get_values(), np.int64)

    @property
    def levels(self) -> int:
        """The number of thresholds of a channel."""
        return shape_of(self.thresholds)[0]

    def verify_semantics(self) -> None:
        if not (shape := shape_of(self.input)):
            raise VerifyException("an input with channels expected, got a scalar")
        channels, limits = shape[-1], constant_array(self.thresholds)
        kind, target = element_of(self.input), quantized_element(self.result)
        stored = kind.storage if isinstance(kind, UniformType) else kind
        if not isinstance(stored, Float32Type) and stored != IntegerType(32):
            raise VerifyException(f"an input of f32 or of 32 bits expected, got {self.input.type}")
        if limits is None or element_of(self.thresholds) != stored or limits.ndim != 2:
            raise VerifyException(
                f"constant thresholds of {stored} with rank 2 expected, got {self.thresholds.type}"
            )
        if limits.shape[1] not in (1, channels):
            raise VerifyException(
                f"thresholds of 1 or {channels} channels expected, got {self.thresholds.type}"
            )
        if not (np.diff(limits, axis=0) >= 0).all():
            raise VerifyException("the thresholds of a channel must be in ascending order")
        for name, values in (("offset", self.offsets), ("step", self.steps)):
            if values.size not in (1, channels):
                raise VerifyException(
                    f"'{name}' must have 1 or {channels} integers, got {values.size}"
                )
        if target is None:
            raise VerifyException(f"a quantized result expected, got {self.result.type}")
        results = self.offsets + np.arange(len(limits) + 1)[:, None] * self.steps
        for bound in (int(results.min()), int(results.max())):
            if not target.low <= bound <= target.high:
                raise VerifyException(
                    f"results must be in [{target.low}, {target.high}], got {bound}"
                )
        if target.is_bipolar and not results.all():
            raise VerifyException("results of i1 must be -1 and 1, got 0")
        expect_shape("result", self.result, shape)
