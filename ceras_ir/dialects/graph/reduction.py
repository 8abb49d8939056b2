"""Operations that make one element of many: reductions and the index of an extreme."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, IntegerType, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import (
    InputOperation,
    element_of,
    expect_same_element,
    expect_shape,
    is_plain,
    shape_of,
)


class Reduce(StrEnum):
    """How two elements become one."""

    SUM = "sum"
    PRODUCT = "product"
    MAX = "max"
    """NaN if either is"""
    MIN = "min"
    """NaN if either is"""


@irdl_attr_definition
class ReduceAttr(EnumAttribute[Reduce], SpacedOpaqueSyntaxAttribute):
    name = "graph.reduce"


@irdl_op_definition
class ReduceOp(InputOperation):
    """
    Combine the elements along `axes`, whose extents become 1: starting with the first, one
    after the other in row-major order, in float32 or in integers that wrap around. Of stored
    quantized numbers `max` and `min` alone are taken.
    """

    name = "graph.reduce"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axes",)

    kind = prop_def(ReduceAttr)
    axes = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, axes: Sequence[int]):
        shape = [1 if i in axes else n for i, n in enumerate(shape_of(input))]
        properties = {"kind": ReduceAttr(kind), "axes": integers(sorted(axes))}
        super().__init__(input, properties, shape=shape)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    @property
    def keeps_scale(self) -> bool:
        return self.function in (Reduce.MAX, Reduce.MIN) and not is_plain(self.input)

    def reordered(self, order: Sequence[int]) -> Mapping[str, Attribute] | None:
        axes = [order[a] for a in self.axes.get_values()]
        # Else elements would be added in another order.
        return super().reordered(order) if axes == sorted(axes) else None

    def verify_semantics(self) -> None:
        expect_same_element(self)
        shape, axes = shape_of(self.input), list(self.axes.get_values())
        if axes != sorted(set(axes)) or any(not 0 <= a < len(shape) for a in axes):
            raise VerifyException(f"axes must be ascending and in [0, {len(shape)}), got {axes}")
        expect_shape("result", self.result, [1 if i in axes else n for i, n in enumerate(shape)])
        if self.is_quantized and self.function not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"'{self.kind.data}' would leave the scale; dequantize its input")


@irdl_op_definition
class ArgOp(InputOperation):
    """
    The index, as i64, of the greatest (`max`) or least (`min`) element along `axis`, whose
    extent becomes 1. From the first element on, each that is really greater (less) takes its
    place; with `last`, each that is not less (not greater). No comparison with NaN holds.
    """

    name = "graph.arg"
    ADMITS_INTEGERS: ClassVar = True
    DIMENSIONS: ClassVar = ("axis",)

    kind = prop_def(ReduceAttr)
    axis = prop_def(IntegerAttr[IntegerType])
    last = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, axis: int, *, last: bool = False):
        shape = [1 if i == axis else n for i, n in enumerate(shape_of(input))]
        properties: dict[str, Attribute] = {
            "kind": ReduceAttr(kind),
            "axis": IntegerAttr(axis, i64),
            "last": BoolAttr.from_bool(last),
        }
        super().__init__(input, properties, shape=shape, element=i64)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    @property
    def takes_last(self) -> bool:
        """Whether the last of equal extremes counts."""
        return bool(self.last.value.data)

    def verify_semantics(self) -> None:
        if self.kind.data not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"kind must be max or min, got {self.kind.data}")
        shape, axis = shape_of(self.input), self.axis.value.data
        if not 0 <= axis < len(shape):
            raise VerifyException(f"axis must be in [0, {len(shape)}), got {axis}")
        expect_shape("result", self.result, [1 if i == axis else n for i, n in enumerate(shape)])
        if element_of(self.result) != i64:
            raise VerifyException(f"indices are i64, got {element_of(self.result)}")


@irdl_op_definition
class TopKOp(InputOperation):
    """
    Of each row, along the last dimension, the indices of its greatest (`max`) or least (`min`)
    elements, as i64: as many as the result's last extent, the extreme first, of equal elements
    the one of lower index first. NaN come behind all numbers, as equal elements.
    """

    name = "graph.top_k"
    ADMITS_INTEGERS: ClassVar = True

    kind = prop_def(ReduceAttr)

    assembly_format = "$kind $input attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: Reduce, input: SSAValue, count: int):
        shape = [*shape_of(input)[:-1], count]
        super().__init__(input, {"kind": ReduceAttr(kind)}, shape=shape, element=i64)

    @property
    def function(self) -> Reduce:
        return self.kind.data

    def verify_semantics(self) -> None:
        if self.kind.data not in (Reduce.MAX, Reduce.MIN):
            raise VerifyException(f"kind must be max or min, got {self.kind.data}")
        shape, found = shape_of(self.input), shape_of(self.result)
        if not shape:
            raise VerifyException("rows expected, got a scalar")
        if found[:-1] != shape[:-1] or not 1 <= found[-1] <= shape[-1]:
            *rows, extent = shape
            raise VerifyException(
                f"result must have {rows} rows of 1 to {extent} indices, got {list(found)}"
            )
        if element_of(self.result) != i64:
            raise VerifyException(f"indices are i64, got {element_of(self.result)}")
