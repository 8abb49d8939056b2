"""Operations that cross between float and quantized numbers, or between two scales."""

from math import isfinite

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph.operation import InputOperation, expect_storable, quantized_element
from ceras_ir.dialects.graph.traits import Elementwise, MayOverwrite
from ceras_ir.dialects.quant import RequantAttr, UniformType


@irdl_op_definition
class QuantizeOp(InputOperation):
    """
    `clamp(round_half_even(x / scale) + zero_point, low, high)` of the result's element type,
    the division in float32. NaN gives the zero point. After ONNX `QuantizeLinear`.
    """

    name = "graph.quantize"

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue, element: UniformType):
        super().__init__(input, element=element)

    def verify_semantics(self) -> None:
        _expect_quantization(self)


@irdl_op_definition
class ScaledQuantizeOp(InputOperation):
    """
    `quantize(input * factor)`, the product rounded to float32, by the one scale of the result's
    element type; see `graph.quantize`. `factor` is finite.
    """

    name = "graph.scaled_quantize"

    factor = prop_def(FloatAttr[Float32Type])

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue, factor: float, element: UniformType):
        super().__init__(input, {"factor": FloatAttr(factor, f32)}, element=element)

    def verify_semantics(self) -> None:
        _expect_quantization(self)
        if not isfinite(self.factor.value.data):
            raise VerifyException(f"'factor' must be finite, got {self.factor.value.data}")
        element = quantized_element(self.result)
        if element is not None and element.is_per_axis:
            raise VerifyException(f"one scale expected, got {element}")


def _expect_quantization(op: QuantizeOp | ScaledQuantizeOp) -> None:
    if quantized_element(op.input) is not None or quantized_element(op.result) is None:
        raise VerifyException(
            f"float to quantized expected, got {op.input.type} -> {op.result.type}"
        )


@irdl_op_definition
class DequantizeOp(InputOperation):
    """`(q - zero_point) * scale` in float32. After ONNX `DequantizeLinear`."""

    name = "graph.dequantize"

    traits = traits_def(Elementwise())

    def __init__(self, input: SSAValue):
        super().__init__(input, element=f32)

    def verify_semantics(self) -> None:
        if quantized_element(self.input) is None or quantized_element(self.result) is not None:
            raise VerifyException(
                f"quantized to float expected, got {self.input.type} -> {self.result.type}"
            )


@irdl_op_definition
class RequantizeOp(InputOperation):
    """`requant(q - zero_point)`: the same real number at another scale, rounded once."""

    name = "graph.requantize"

    requant = prop_def(RequantAttr)

    traits = traits_def(Elementwise(), MayOverwrite())

    def __init__(self, input: SSAValue, element: UniformType, requant: RequantAttr):
        super().__init__(input, {"requant": requant}, element=element)

    def verify_semantics(self) -> None:
        if quantized_element(self.input) is None:
            raise VerifyException(f"quantized input expected, got {self.input.type}")
        if self.requant.is_per_channel:
            raise VerifyException("'requant' must have one multiplier")
        expect_storable(self.result, self.requant)
