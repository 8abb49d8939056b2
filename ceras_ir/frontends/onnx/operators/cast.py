"""Changes of the element type."""

from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.signature import ELEMENTS
from ceras_ir.frontends.onnx.tensors import type_name
from ceras_ir.frontends.onnx.values import Value


@rule("Cast")
def plain_target(node: Node) -> str | None:
    """the type must be a float of 16 to 64 bits, an integer of 8 to 64 bits or a boolean"""
    target = node.integer("to", 0)
    if target in ELEMENTS:
        return None
    return f"got {type_name(target)}; convert the model to float32"


@operator("Cast")
def cast(node: Node, emitter: Emitter) -> Value:
    """Fractions are dropped; a float that an integer type does not hold saturates."""
    node.ignore("saturate", "round_mode")
    return Composer(emitter).cast(emitter.value(0), ELEMENTS[node.integer("to", 0)])


@operator("CastLike")
def cast_like(node: Node, emitter: Emitter) -> Value:
    """As `Cast` to the type of the second operand."""
    from ceras_ir.dialects.graph import plain_element
    from ceras_ir.frontends.onnx.emitter import dtype_of_value

    node.ignore("saturate", "round_mode")
    element = plain_element(dtype_of_value(emitter.value(1)))
    if element is None:
        raise node.unsupported("the type must be float32, an integer or a boolean")
    return Composer(emitter).cast(emitter.value(0), element)
