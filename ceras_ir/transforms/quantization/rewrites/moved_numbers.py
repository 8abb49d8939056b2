"""Stored numbers and zero points moved by the same constant, so that both types mean the same."""

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType


def store_moved(value: SSAValue, element: UniformType, distance: int) -> None:
    """Let the operation that makes `value` store it as `element`: numbers greater by `distance`."""
    op = value.owner
    assert isinstance(op, Operation)
    requant: Attribute | None = op.properties.get("requant")
    if isinstance(requant, RequantAttr):
        op.properties["requant"] = requant.replaced(
            zero_point=requant.zero_point.data + distance,
            low=requant.low.data + distance,
            high=requant.high.data + distance,
        )
    Rewriter.replace_value_with_new_type(value, graph.type_with_element(value, element))
