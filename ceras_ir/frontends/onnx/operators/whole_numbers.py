"""
Arithmetic on integers bit by bit, remainders, sums along an axis, and changes of the element type.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, Compare, Function, numpy_dtype, plain_element
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator, rule
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import element_type, type_name
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.model.signature import ELEMENT_TYPES
from ceras_ir.interpreters.graph import cast as meaning_of_cast

BITWISE = {"BitwiseAnd": Binary.AND, "BitwiseOr": Binary.OR, "BitwiseXor": Binary.XOR}


@operator(*BITWISE)
def bitwise(node: Node, emitter: Emitter) -> Value:
    """Of integers, bit by bit."""
    return emitter.binary(BITWISE[node.operator], emitter.value(0), emitter.value(1))


@operator("BitwiseNot")
def bitwise_not(node: Node, emitter: Emitter) -> Value:
    """Exclusive or with all ones."""
    value = emitter.value(0)
    ones = np.array(-1).astype(dtype_of_value(value))
    return emitter.binary(Binary.XOR, value, emitter.constant(ones, "ones"))


@operator("BitShift")
def bit_shift(node: Node, emitter: Emitter) -> Value:
    """
    A product or a quotient with a power of 2, which wraps around to 0 where all bits leave; what is
    divided by 0 is 0.
    """
    value, count = (emitter.value(i) for i in (0, 1))
    factor = emitter.binary(Binary.POW, emitter.number(2, value), count)
    direction = node.string("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise node.wrong(f"attribute 'direction' must be LEFT or RIGHT, got '{direction}'")
    if direction == "RIGHT" and dtype_of_value(value).kind == "i":
        # Rounded down: what is below 0 is shifted with all its bits the other way around.
        below = emitter.compare(Compare.LESS, value, emitter.number(0, value))
        ones = emitter.select(below, emitter.number(-1, value), emitter.number(0, value))
        quotient = emitter.div(emitter.binary(Binary.XOR, value, ones), factor)
        return emitter.binary(Binary.XOR, quotient, ones)
    return (emitter.mul if direction == "LEFT" else emitter.div)(value, factor)


@operator("BitCast")
def bit_cast(node: Node, emitter: Emitter) -> Value:
    """Integers of the same bits with another sign."""
    value, kind = emitter.value(0), element_type(node.integer("to", 0))
    old = dtype_of_value(value)
    if kind is None or kind.itemsize != old.itemsize or "f" in (kind.kind, old.kind):
        raise node.unsupported(
            f"the bits of {old} as {kind}; integers of one width are taken: compute on the numbers"
        )
    element = plain_element(kind)
    assert element is not None
    return emitter.cast(value, element)


@operator("Mod")
def remainder(node: Node, emitter: Emitter) -> Value:
    """`x - y * trunc(x / y)` with `fmod`, else with the sign of the divisor, as Python has it."""
    x, y = (emitter.value(i) for i in (0, 1))
    if not emitter.is_float(x):
        rest = emitter.sub(x, emitter.mul(y, emitter.div(x, y)))
        if node.flag("fmod") or dtype_of_value(x).kind == "u":
            return rest
        zero = emitter.number(0, x)
        signs = emitter.compare(Compare.LESS, emitter.binary(Binary.XOR, rest, y), zero)
        other = emitter.compare(Compare.EQUAL, rest, zero)
        return emitter.select(other, rest, emitter.select(signs, emitter.add(rest, y), rest))
    # A quotient beyond 2^24 has no fraction, and its remainder no digit that is right.
    quotient = emitter.div(x, y)
    size = emitter.unary(Function.FLOOR, emitter.unary(Function.ABS, quotient))
    whole = emitter.mul(size, emitter.unary(Function.SIGN, quotient))
    zero = emitter.number(0)
    # An infinite divisor times 0 is no number, and leaves what there is.
    is_less = emitter.compare(Compare.EQUAL, whole, zero)
    rest = emitter.select(is_less, x, emitter.sub(x, emitter.mul(y, whole)))
    if node.flag("fmod"):
        return rest
    below = [emitter.compare(Compare.LESS, v, zero) for v in (rest, y)]
    is_other = emitter.binary(Binary.XOR, *below)
    is_zero = emitter.compare(Compare.EQUAL, rest, zero)
    return emitter.select(is_zero, rest, emitter.select(is_other, emitter.add(rest, y), rest))


constant_operands(
    {"CumSum": [1], "CumProd": [1], "OneHot": [1], "Trilu": [1]},
    "axis, depth and diagonal must be constants",
    "make it an initializer",
)

MAX_CUMULATED = 1 << 10
"""Elements along an axis that are added up one after the other."""


@operator("CumSum", "CumProd")
def cumulate(node: Node, emitter: Emitter) -> Value:
    """
    One element after the other along an axis, in either direction; sums of whole numbers, whose
    order is free, in fewer steps.
    """
    x = emitter.value(0)
    shape = shape_of_value(x)
    axis = node.axis(int(emitter.array(1).reshape(-1)[0]), len(shape))
    backwards, exclusive = node.flag("reverse"), node.flag("exclusive")
    if node.operator == "CumSum" and dtype_of_value(x).kind in "iu":
        turned = emitter.reversed(x, axis) if backwards else x
        sums = emitter.running_sum(turned, axis)
        sums = emitter.sub(sums, turned) if exclusive else sums
        return emitter.reversed(sums, axis) if backwards else sums
    extent = shape[axis]
    if extent > MAX_CUMULATED:
        raise node.unsupported(
            f"{extent} elements along the axis, at most {MAX_CUMULATED} are taken; split it"
        )
    kind = Binary.ADD if node.operator == "CumSum" else Binary.MUL
    neutral = np.full(
        [1 if i == axis else n for i, n in enumerate(shape)],
        node.operator == "CumProd",
        dtype_of_value(x),
    )
    order = range(extent)[::-1] if backwards else range(extent)
    parts = [emitter.part(x, axis, i, 1) for i in order]
    found: list[Value] = [emitter.constant(neutral, "start")] if exclusive else [parts.pop(0)]
    for part in parts[: extent - 1]:
        first = exclusive and len(found) == 1
        found.append(part if first else emitter.binary(kind, found[-1], part))
    return emitter.joined(found[::-1] if backwards else found, axis)


@operator("Trilu")
def triangle(node: Node, emitter: Emitter) -> Value:
    """The triangle above or below a diagonal; zeros elsewhere."""
    x = emitter.value(0)
    shape = shape_of_value(x)
    k = int(emitter.array(1).reshape(-1)[0]) if node.has_input(1) else 0
    ones = np.ones(shape[-2:], np.bool_)
    mask = np.triu(ones, k) if node.flag("upper", True) else np.tril(ones, k)
    kept = emitter.constant(mask.reshape((1,) * (len(shape) - 2) + mask.shape), "mask")
    return emitter.select(kept, x, emitter.number(0, x))


@operator("OneHot")
def one_hot(node: Node, emitter: Emitter) -> Value:
    """A comparison with every index, and a selection of one of two values."""
    indices, values = emitter.value(0), emitter.value(2)
    shape = shape_of_value(indices)
    depth = int(emitter.array(1).reshape(-1)[0])
    axis = node.axis(node.integer("axis", -1), len(shape) + 1)
    lifted = emitter.reshaped(indices, (*shape[:axis], 1, *shape[axis:]))
    dtype = dtype_of_value(indices)
    zero, size = emitter.number(0, lifted), emitter.number(depth, lifted)
    below = emitter.compare(Compare.LESS, lifted, zero)
    wrapped = emitter.select(below, emitter.add(lifted, size), lifted)
    numbers = np.arange(depth).astype(dtype).reshape([-1 if i == axis else 1 for i in _all(shape)])
    hit = emitter.compare(Compare.EQUAL, wrapped, emitter.constant(numbers, "indices"))
    off, on = (emitter.part(values, 0, i, 1) for i in (0, 1))
    return emitter.select(hit, on, off)


def _all(shape: Sequence[int]) -> range:
    """The dimensions of a result that has one more."""
    return range(len(shape) + 1)


@operator("EyeLike")
def eye(node: Node, emitter: Emitter) -> Value:
    """A constant of the operand's shape."""
    shape = emitter.shape(0)
    if len(shape) != 2:
        raise node.wrong(f"matrix expected, got shape {list(shape)}")
    dtypes = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 10: np.float32, 11: np.float32}
    kind = node.integer("dtype", 0)
    dtype = np.dtype(dtypes[kind]) if kind in dtypes else dtype_of_value(emitter.value(0))
    array = np.eye(*shape, k=node.integer("k", 0)).astype(dtype)
    return Constant.of(node.outputs[0], array)


@rule("Cast")
def plain_target(node: Node) -> str | None:
    """the type must be a float of 16 to 64 bits, an integer of 8 to 64 bits or a boolean"""
    target = node.integer("to", 0)
    if target in ELEMENT_TYPES or target == onnx.TensorProto.STRING:
        return None
    return f"got {type_name(target)}; convert the model to float32"


@operator("Cast")
def cast(node: Node, emitter: Emitter) -> Value:
    """Fractions are dropped; a float that an integer type does not hold saturates."""
    node.ignore("saturate", "round_mode")
    value = emitter.value(0)
    is_text = value in emitter.labels if isinstance(value, SSAValue) else value.dtype.kind == "U"
    if is_text != (node.integer("to", 0) == onnx.TensorProto.STRING):
        raise node.unsupported("numbers and text become each other; remove it from the model")
    if is_text:
        return value
    return emitter.cast(value, ELEMENT_TYPES[node.integer("to", 0)])


@operator("CastLike")
def cast_like(node: Node, emitter: Emitter) -> Value:
    """As `Cast` to the type of the second operand."""
    node.ignore("saturate", "round_mode")
    element = plain_element(dtype_of_value(emitter.value(1)))
    if element is None:
        raise node.unsupported("the type must be float32, an integer or a boolean")
    value = emitter.value(0)
    if not isinstance(value, Constant):
        return emitter.cast(value, element)
    # Known, because of the second operand only its type is asked for.
    dtype = numpy_dtype(element)
    return emitter.constant(meaning_of_cast(value.load(), dtype), "constant")
