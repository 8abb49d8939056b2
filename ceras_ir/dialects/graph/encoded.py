"""
The matrix product of microcontrollers: weights in a stated encoding, sums in a stated order.

`graph.matmul` leaves the order of a float sum to the target; this operation does not, so that
dense, sparse and quantized weights in flash can be held to the interpreter bit for bit.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    Tensor,
    element_of,
    expect_rank,
    expect_shape,
    quantized_element,
    shape_of,
)
from ceras_ir.dialects.quant import UniformType


class Encoding(StrEnum):
    """How the weights of one layer lie in flash."""

    DENSE = "dense"
    """Every weight."""
    CSR_DELTA8 = "csr_delta8"
    """Non-zero weights row by row, each with its distance from the one before in 8 bits."""
    CSR_INDEX16 = "csr_index16"
    """Non-zero weights row by row, each with its column in 16 bits, as S4 has them."""
    CODE = "code"
    """Non-zero weights as literals of straight-line code."""


@irdl_attr_definition
class EncodingAttr(EnumAttribute[Encoding], SpacedOpaqueSyntaxAttribute):
    name = "graph.encoding"


@irdl_op_definition
class EncodedMatmulOp(GraphOperation):
    """
    Matrix product of float32 `input` [M, K] with transposed `weights` [N, K], which are float32
    or int8 with one scale S and no zero point (S4: stored = clip(round(w / S), -128, 127)):

    `acc[m, n] = (...((0 + x[m, k0] * w[n, k0]) + x[m, k1] * w[n, k1]) + ...) * S + bias[n]`

    over the *stored* weights k0 < k1 < ... of row n, `w` being the stored numbers as float32;
    without S and bias, their steps are left out; `activation` is applied last. Every product and
    every sum is rounded to float32 by itself, in this order. Stored are all weights in encoding
    `dense`; in the others those that are not zero, and in `csr_delta8` also a zero wherever a
    distance (the first from column 0) would exceed 255. Where all of `input` is finite the
    result does not depend on the encoding.

    No `graph.matmul`: its sums have this order and no other, stored zeros of an encoding included,
    and weights may be int8 beside float operands, which no quantized product has.
    """

    name = "graph.encoded_matmul"

    input = operand_def(TensorType)
    weights = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    encoding = prop_def(EncodingAttr)
    activation = opt_prop_def(FunctionAttr)

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$encoding $input `,` $weights (`bias` $bias^ `:` type($bias))? "
        "attr-dict `:` `(` type($input) `,` type($weights) `)` `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue | None = None,
        *,
        encoding: Encoding,
        activation: FunctionAttr | None = None,
    ):
        shape = (shape_of(input)[0], shape_of(weights)[0])
        result_type: Tensor = TensorType(element_of(input), shape)
        super().__init__(
            operands=[input, weights, bias],
            result_types=[result_type],
            properties={"encoding": EncodingAttr(encoding), "activation": activation},
        )

    @property
    def kind(self) -> Encoding:
        return self.encoding.data

    @property
    def spelling(self) -> str:
        return f"matmul {self.kind.value}" + ("" if self.scale is None else " int8")

    @property
    def macs(self) -> int:
        """Multiplications of one inference were no weight zero, as `graph.matmul` counts them."""
        return prod(shape_of(self.result)) * shape_of(self.weights)[1]

    @property
    def scale(self) -> float | None:
        """S of the docstring, or None where weights are float."""
        element = quantized_element(self.weights)
        return None if element is None else element.scale

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("weights", self.weights, 2)
        (m, k), (n, wk) = shape_of(self.input), shape_of(self.weights)
        if k != wk:
            raise VerifyException(f"input of {k} columns cannot meet weights of {wk} columns")
        if k > 1 << 16:
            raise VerifyException(f"at most 65536 columns have 16-bit indices, got {k}")
        expect_shape("result", self.result, (m, n))
        for name, value in (("input", self.input), ("bias", self.bias), ("result", self.result)):
            if value is not None and not isinstance(element_of(value), Float32Type):
                raise VerifyException(f"{name} must be float32, got {element_of(value)}")
        if self.bias is not None:
            expect_shape("bias", self.bias, (n,))
        element = element_of(self.weights)
        if isinstance(element, UniformType) and not _is_plain_int8(element):
            raise VerifyException(
                f"weights must be f32, or i8 with one scale and no zero point, got {element}"
            )


def _is_plain_int8(element: UniformType) -> bool:
    is_byte = element.is_signed and element.storage.width.data == 8
    return is_byte and not element.is_per_axis and element.zero_point == 0
