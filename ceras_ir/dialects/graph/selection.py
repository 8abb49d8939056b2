"""Operations that select elements of a tensor, or add a border."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import MovesElements, integers
from ceras_ir.dialects.graph.constant import ConstantOp
from ceras_ir.dialects.graph.operation import (
    GraphOperation,
    InputOperation,
    element_of,
    expect_axis,
    expect_length,
    expect_rank,
    expect_same_element,
    expect_shape,
    is_plain,
    shape_of,
)
from ceras_ir.dialects.quant import UniformType


@irdl_op_definition
class SliceOp(InputOperation):
    """
    Index `i` of dimension `d` of the result is index `starts[d] + i * strides[d]` of `input`. A
    stride can be negative. After StableHLO `slice`, with sizes for limits.

        %y = graph.slice %x {starts = array<i64: 0, 5>, strides = array<i64: 1, -2>}
            : (tensor<2x6xf32>) -> tensor<2x3xf32>
    """

    name = "graph.slice"
    ADMITS_INTEGERS: ClassVar = True
    PER_DIMENSION: ClassVar = ("starts", "strides")

    starts = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(MovesElements())

    def __init__(
        self,
        input: SSAValue,
        starts: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ):
        steps = integers(strides or (1,) * len(starts))
        super().__init__(input, {"starts": integers(starts), "strides": steps}, shape=sizes)

    def verify_semantics(self) -> None:
        source, sizes = shape_of(self.input), shape_of(self.result)
        starts, strides = self.starts.get_values(), self.strides.get_values()
        expect_length("starts", starts, len(source), 0)
        if len(strides) != len(source) or 0 in strides:
            raise VerifyException(
                f"strides must be {len(source)} integers other than 0, got {list(strides)}"
            )
        if len(sizes) != len(source):
            raise VerifyException(f"the rank of the result must be {len(source)}, got {len(sizes)}")
        for i, (extent, start, size, stride) in enumerate(
            zip(source, starts, sizes, strides, strict=True)
        ):
            last = start + (size - 1) * stride
            if not (0 <= start < extent and 0 <= last < extent):
                raise VerifyException(
                    f"dimension {i} of extent {extent} has no elements {start} to {last}"
                )


@irdl_op_definition
class GatherOp(InputOperation):
    """
    Index `i` of dimension `axis` of the result is index `indices[i]` of `input`.

        %y = graph.gather %x {axis = 1 : i64, indices = array<i64: 0, 0, 5>}
            : (tensor<2x6xf32>) -> tensor<2x3xf32>
    """

    name = "graph.gather"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axis",)

    axis = prop_def(IntegerAttr[IntegerType])
    indices = prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(MovesElements())

    def __init__(self, input: SSAValue, axis: int, indices: Sequence[int]):
        shape = list(shape_of(input))
        shape[axis] = len(indices)
        properties = {"axis": IntegerAttr(axis, i64), "indices": integers(indices)}
        super().__init__(input, properties, shape=shape)

    def verify_semantics(self) -> None:
        shape, axis = list(shape_of(self.input)), self.axis.value.data
        expect_axis(axis, len(shape))
        indices, extent = self.indices.get_values(), shape[axis]
        if outside := [i for i in indices if not 0 <= i < extent]:
            raise VerifyException(f"indices must be in [0, {extent}), got {outside[0]}")
        shape[axis] = len(indices)
        expect_shape("result", self.result, shape)


@irdl_op_definition
class TakeOp(GraphOperation):
    """
    Row `n` of the result [N, C] is row `indices[n]` of `input` [R, C], with computed integers. A
    negative index counts from the end, and an index out of range is clamped.

        %y = graph.take %x[%i] : (tensor<7x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    """

    name = "graph.take"
    ADMITS_INTEGERS: ClassVar = True

    input = operand_def(TensorType)
    indices = operand_def(TensorType)

    assembly_format = "$input `[` $indices `]` attr-dict `:` functional-type(operands, results)"

    def __init__(self, input: SSAValue, indices: SSAValue):
        shape = (shape_of(indices)[0], shape_of(input)[1])
        super().__init__(
            operands=[input, indices], result_types=[TensorType(element_of(input), shape)]
        )

    @property
    def data_operands(self) -> Sequence[SSAValue]:
        return (self.input,)

    @property
    def is_alias(self) -> bool:
        # The scale of a constant table includes rows that are never selected.
        return not isinstance(self.input.owner, ConstantOp) and not is_plain(self.input)

    def verify_semantics(self) -> None:
        expect_rank("input", self.input, 2)
        expect_rank("indices", self.indices, 1)
        if not is_plain(self.indices) or element_of(self.indices) == IntegerType(1):
            raise VerifyException(f"indices must be integers, got {element_of(self.indices)}")
        if element_of(self.result) != element_of(self.input):
            raise VerifyException(
                f"element types must be equal, got {element_of(self.input)} -> "
                f"{element_of(self.result)}"
            )
        expect_shape("result", self.result, (shape_of(self.indices)[0], shape_of(self.input)[1]))


class Pad(StrEnum):
    """The elements of the border; ONNX `Pad` modes."""

    CONSTANT = "constant"
    """`value`"""
    REFLECT = "reflect"
    """the input mirrored at the outermost elements, which are not repeated"""
    EDGE = "edge"
    """the outermost elements"""
    WRAP = "wrap"
    """the input repeated from the other end"""


@irdl_attr_definition
class PadAttr(EnumAttribute[Pad], SpacedOpaqueSyntaxAttribute):
    name = "graph.pad"


@irdl_op_definition
class PadOp(InputOperation):
    """
    Add `low[d]` elements before and `high[d]` after `input` in each dimension. Kind `constant` also
    adds `interior[d]` between two neighbors. `value` is a stored element: f32 for a float tensor,
    else an integer. After StableHLO `pad`.

        %y = graph.pad constant %x {low = array<i64: 0, 1>, high = array<i64: 0, 2>,
            interior = array<i64: 0, 0>, value = 0.0 : f32} : (tensor<2x6xf32>) -> tensor<2x9xf32>
    """

    name = "graph.pad"
    ADMITS_INTEGERS: ClassVar = True
    PER_DIMENSION: ClassVar = ("low", "high", "interior")

    kind = prop_def(PadAttr)
    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))
    interior = prop_def(DenseArrayBase.constr(i64))
    value = prop_def(FloatAttr | IntegerAttr)

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        kind: Pad,
        input: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        *,
        interior: Sequence[int] | None = None,
        value: Attribute | None = None,
    ):
        between = interior or (0,) * len(low)
        shape = _padded(shape_of(input), low, high, between)
        zero = FloatAttr(0.0, f32) if element_of(input) == f32 else IntegerAttr(0, i64)
        properties: dict[str, Attribute] = {
            "kind": PadAttr(kind),
            "low": integers(low),
            "high": integers(high),
            "interior": integers(between),
            "value": value or zero,
        }
        super().__init__(input, properties, shape=shape)

    @property
    def function(self) -> Pad:
        return self.kind.data

    @property
    def is_alias(self) -> bool:
        # 0 is representable at each scale, as the zero point; other values may not be.
        zero = self.function is not Pad.CONSTANT or self.stored_value == 0
        return zero and not is_plain(self.input)

    def quantized(self, operands: Sequence[SSAValue], element: UniformType) -> GraphOperation:
        new = super().quantized(operands, element)
        new.properties["value"] = IntegerAttr(element.zero_point, i64)
        return new

    @property
    def stored_value(self) -> float | int:
        """The element of a constant border as stored: an integer for quantized tensors."""
        return self.value.value.data

    def verify_semantics(self) -> None:
        expect_same_element(self)
        shape = shape_of(self.input)
        for name in ("low", "high", "interior"):
            expect_length(name, getattr(self, name).get_values(), len(shape), 0)
        low, high = self.low.get_values(), self.high.get_values()
        interior = self.interior.get_values()
        if self.function is not Pad.CONSTANT and any(interior):
            raise VerifyException("only kind 'constant' can add elements between neighbors")
        longest = {Pad.REFLECT: -1, Pad.WRAP: 0}.get(self.function)
        if longest is not None:
            for n, a, b in zip(shape, low, high, strict=True):
                if max(a, b) > n + longest:
                    raise VerifyException(
                        f"kind '{self.kind.data}' adds at most {n + longest} elements "
                        f"to an extent of {n}, got {max(a, b)}"
                    )
        is_float = element_of(self.input) == f32
        if is_float != isinstance(self.value, FloatAttr):
            raise VerifyException(
                f"value must be {'an f32' if is_float else 'an integer'}, got {self.value}"
            )
        expect_shape("result", self.result, _padded(shape, low, high, interior))


def _padded(
    shape: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> list[int]:
    extents = zip(shape, low, high, interior, strict=True)
    return [n + a + b + (n - 1) * i for n, a, b, i in extents]
