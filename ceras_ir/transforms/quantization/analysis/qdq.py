"""
Q/DQ networks: whether one is, or was calibrated to become integers, and which operations integers
pass as floats do.
"""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.quantizable import keeps_scale
from ceras_ir.network.storage import exponent, network_values

HALF_EVEN = "graph.half_even"
"""
Attribute of a quantization whose ties go to even, in a network that says where its ties go; without
it those between powers of two go up.
"""

COMES_QUANTIZED = (
    "a model that comes quantized has its precision in its Q/DQ nodes; calibrate the float model "
    "instead"
)
"""Why options of quantization have no say in a network."""


def only_moves(op: graph.GraphOperation) -> bool:
    """Whether elements are moved, or the greatest taken; what puts others around is apart."""
    return not isinstance(op, graph.PadOp) and keeps_scale(op)


def carries_exponents(main: FuncOp) -> bool:
    """Whether values have exponents, as calibrated text has them."""
    return any(exponent(value) is not None for value in network_values(main.body.block))


def carries_quantization(module: ModuleOp) -> bool:
    """
    Whether activations are quantized or dequantized anywhere; constants that are only stored
    in integers say nothing about activations.
    """
    for op in module.walk():
        if isinstance(op, graph.GraphOperation) and not isinstance(op, graph.ConstantOp):
            if op.is_quantized:
                return True
            if isinstance(op, graph.DequantizeOp) and not isinstance(
                op.input.owner, graph.ConstantOp
            ):
                return True
    return False


def is_quantized_alike(op: graph.QuantizeOp) -> bool:
    """Whether all that reads the operand of `op` quantizes it as `op` does."""
    readers = [use.operation for use in op.input.uses]
    return all(isinstance(r, graph.QuantizeOp) and r.result.type == op.result.type for r in readers)


def stored_types(op: Operation) -> list[UniformType]:
    """How the operands and results of an operation are stored, those that are quantized."""
    found = (graph.quantized_element(value) for value in (*op.operands, *op.results))
    return [element for element in found if element is not None]
