"""Operations that cross between float and quantized numbers, or between two scales."""

from xdsl.dialects.builtin import f32
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
        if quantized_element(self.input) is not None or quantized_element(self.result) is None:
            raise VerifyException(
                f"float to quantized expected, got {self.input.type} -> {self.result.type}"
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
