"""
What operations of the `graph` dialect share: tensors of float32 or quantized elements.

An operation is *quantized* when its result is. Then every operand is quantized too and
the operation carries the `#graph.requant` that makes its result; a float one has none.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, TypeAlias, TypeGuard

from xdsl.dialects.builtin import Float32Type, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.quant import RequantAttr, UniformType

Tensor: TypeAlias = TensorType[Attribute]
"""A ranked tensor; the verifier admits float32, quantized and, where it says so, integers."""

INTEGER_WIDTHS = (1, 8, 16, 32, 64)
"""Of plain integer elements; i1 is a truth value, stored as a byte of 0 or 1."""


def is_tensor(type: Attribute) -> TypeGuard[Tensor]:
    """Whether `type` is a ranked tensor."""
    return isinstance(type, TensorType)


def tensor_type(value: SSAValue) -> Tensor:
    """The type of a value that is known to be a tensor."""
    assert is_tensor(value.type)
    return value.type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor value."""
    return tensor_type(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return tensor_type(value).element_type


def quantized_element(value: SSAValue) -> UniformType | None:
    """The quantized element type of a tensor value, or None for a float one."""
    element = element_of(value)
    return element if isinstance(element, UniformType) else None


def scale_of(value: SSAValue) -> float:
    """The scale of a value that is known to be quantized per tensor."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element.scale


def window_extent(size: int, dilation: int) -> int:
    """Elements from the first to the last tap of a window, both included."""
    return (size - 1) * dilation + 1


def window_output(
    size: int, before: int, after: int, kernel: int, stride: int, dilation: int
) -> int:
    """Output elements of a sliding window over `before + size + after` elements."""
    return (size + before + after - window_extent(kernel, dilation)) // stride + 1


class GraphOperation(IRDLOperation, ABC):
    """An operation with one tensor result and static shapes."""

    irdl_options = (ParsePropInAttrDict(),)

    ADMITS_INTEGERS: ClassVar = False
    """Whether tensors may have plain integer elements, which wrap around like C's unsigned."""

    @property
    def is_quantized(self) -> bool:
        return quantized_element(self.results[0]) is not None

    @property
    def output(self) -> SSAValue:
        return self.results[0]

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            if not is_tensor(value.type):
                raise VerifyException(f"tensor expected, got {value.type}")
            if any(extent < 1 for extent in value.type.get_shape()):
                raise VerifyException(f"static, non-empty shape expected, got {value.type}")
            element = value.type.element_type
            if isinstance(element, IntegerType) and self.ADMITS_INTEGERS:
                if element.bitwidth not in INTEGER_WIDTHS:
                    raise VerifyException(
                        f"integers must have 1, 8, 16, 32 or 64 bits, got {element}"
                    )
            elif not isinstance(element, Float32Type | UniformType):
                raise VerifyException(f"elements must be f32 or quantized, got {element}")
        self.verify_semantics()

    def verify_semantics(self) -> None:
        """Whatever types and traits cannot say; operands are already known to be tensors."""


def expect_shape(name: str, value: SSAValue, expected: Sequence[int]) -> None:
    """Refuse a value of another shape."""
    if (shape := shape_of(value)) != tuple(expected):
        raise VerifyException(f"{name} must have shape {tuple(expected)}, got {shape}")


def expect_rank(name: str, value: SSAValue, rank: int) -> None:
    """Refuse a value of another rank."""
    if len(shape := shape_of(value)) != rank:
        raise VerifyException(f"{name} must have rank {rank}, got shape {shape}")


def expect_length(name: str, values: Sequence[int], length: int, least: int) -> None:
    """Refuse a list of another length, or with an entry below `least`."""
    if len(values) != length or any(v < least for v in values):
        raise VerifyException(
            f"{name} must be {length} integers of at least {least}, got {list(values)}"
        )


def expect_rescaling(op: Operation, requant: RequantAttr | None, channels: int = 0) -> None:
    """
    A quantized operation has quantized operands and a requantization, which may have a
    multiplier for each of its `channels`; a float one has neither.
    """
    quantized = [quantized_element(v) is not None for v in (*op.operands, *op.results)]
    if any(quantized) != all(quantized):
        raise VerifyException("operands and result must be all float or all quantized")
    if quantized[-1] and requant is None:
        raise VerifyException(
            "a quantized operation needs 'requant', with its shift, rounding and clamp range"
        )
    if not quantized[-1] and requant is not None:
        raise VerifyException("a float operation cannot have 'requant'")
    if requant is not None:
        if requant.is_per_channel and len(requant.channels) != channels:
            raise VerifyException(
                f"'requant' has {len(requant.channels)} multipliers, "
                + (f"expected {channels}" if channels else "but only one is allowed here")
            )
        expect_storable(op.results[0], requant)


def expect_storable(result: SSAValue, requant: RequantAttr) -> None:
    """Refuse a clamp range that the result's storage cannot hold."""
    element = quantized_element(result)
    if element is None:
        raise VerifyException(f"quantized result expected, got {result.type}")
    if requant.low.data < element.low or requant.high.data > element.high:
        raise VerifyException(
            f"clamp range [{requant.low.data}, {requant.high.data}] exceeds {element.storage}"
        )
