"""Changes of the element type."""

import onnx
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import numpy_dtype, plain_element
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.signature import ELEMENTS
from ceras_ir.frontends.onnx.tensors import type_name
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.interpreters.arithmetic import cast as meaning_of_cast


@rule("Cast")
def plain_target(node: Node) -> str | None:
    """the type must be a float of 16 to 64 bits, an integer of 8 to 64 bits or a boolean"""
    target = node.integer("to", 0)
    if target in ELEMENTS or target == onnx.TensorProto.STRING:
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
    return Composer(emitter).cast(value, ELEMENTS[node.integer("to", 0)])


@operator("CastLike")
def cast_like(node: Node, emitter: Emitter) -> Value:
    """As `Cast` to the type of the second operand."""
    node.ignore("saturate", "round_mode")
    element = plain_element(dtype_of_value(emitter.value(1)))
    if element is None:
        raise node.unsupported("the type must be float32, an integer or a boolean")
    value = emitter.value(0)
    if not isinstance(value, Constant):
        return Composer(emitter).cast(value, element)
    # Known, because of the second operand only its type is asked for.
    dtype = numpy_dtype(element)
    return emitter.constant(meaning_of_cast(value.load(), dtype), "constant")
