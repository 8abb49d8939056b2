"""C types of tensors, and numbers spelled so that C reads the same value."""

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects.graph import element_of, numpy_dtype, storage_type
from ceras_ir.dialects.quant import UniformType


def c_type(element: Attribute) -> str:
    """The type that holds `element`, for example `int8_t`."""
    if isinstance(storage_type(element), Float32Type):
        return "float"
    name = numpy_dtype(element).name
    return "uint8_t" if name == "bool" else f"{name}_t"


def value_type(value: SSAValue) -> str:
    """The C type of the elements of a tensor value."""
    return c_type(element_of(value))


def int_literal(value: int) -> str:
    """An integer constant of a type wide enough; the least ones have no literal of their own."""
    if value == -(1 << 31):
        return "INT32_MIN"
    if -(1 << 31) < value < 1 << 31:
        return str(value)
    assert abs(value) < 1 << 63
    return f"INT64_C({value})"


def less(text: str, offset: int) -> str:
    """`text - offset`, or `text` for zero."""
    if offset == 0:
        return text
    return f"{text} - {offset}" if offset > 0 else f"{text} + {-offset}"


def zero_point_of(element: UniformType) -> int:
    """The zero point of a type, which must be the same for all channels."""
    points = {z.data for z in element.zero_points}
    assert len(points) == 1
    return points.pop()


def centred_bound(element: UniformType) -> int:
    """The greatest magnitude of a stored number less its zero point."""
    point = zero_point_of(element)
    return max(element.high - point, point - element.low)
