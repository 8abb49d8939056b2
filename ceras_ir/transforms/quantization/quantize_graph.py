"""Turn a float network with chosen exponents into a quantized one."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.precision import NARROW, keep_in_float, set_width, stays_float
from ceras_ir.network.quantizable import SNAPPED, quantized_operations
from ceras_ir.network.ranges import LAYER, forget, network_values
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.rewrites.quantized_values import QuantizedValues
from ceras_ir.transforms.quantization.rewrites.stored_operations import stored_operation
from ceras_ir.transforms.rebuilding import erase_unused

BORDER = "the number that it puts around may have no integer"


@dataclass(frozen=True)
class QuantizeGraphPass(FloatNetworkPass):
    """
    Replace every operation of a calibrated float network by its quantized form. Values have int8
    and power-of-two scales, biases 32 bits. Every requantization is a shift that rounds half up.

    Values with `graph.precision = "i16"` have 16 bits. Operations without a quantized form, or with
    `graph.precision = "f32"`, stay float between `graph.dequantize` and `graph.quantize`. So do
    arguments and results of the function. A pad of another number than zero says so by
    `graph.precision`, as `fold-qdq` has an integer form of it.

    Needs `graph.exponent` on every value and `graph.weight_exponent` where weights are constant;
    drops them. Not exact: this is where the network's values change.
    """

    name = "quantize-graph"

    def change(self, main: FuncOp) -> None:
        _convert(main)
        main.attributes.pop(SNAPPED, None)


def _convert(main: FuncOp) -> None:
    block = main.body.block
    chosen = quantized_operations(main)
    values = QuantizedValues(block)
    for op in list(block.ops):
        if op not in chosen:
            for i, operand in enumerate(op.operands):
                op.operands[i] = values.real(operand, op)
            if isinstance(op, graph.PadOp) and _puts_numbers(op) and not stays_float(op):
                keep_in_float(op, BORDER)
            continue
        assert isinstance(op, graph.GraphOperation)
        new = stored_operation(op, values)
        if LAYER in op.attributes:
            new[-1].attributes[LAYER] = op.attributes[LAYER]
        Rewriter.insert_op(new, InsertPoint.before(op))
        values.define(op.output, new[-1].output)
    constants: dict[graph.ConstantOp, None] = {}
    for op in reversed(chosen):
        constants |= {v.owner: None for v in op.operands if isinstance(v.owner, graph.ConstantOp)}
        Rewriter.erase_op(op)
    for constant in constants:
        erase_unused(constant)
    for value in network_values(block):
        set_width(value, NARROW)
        forget(value)


def _puts_numbers(op: graph.PadOp) -> bool:
    """Whether floats other than zero are put around floats."""
    return not op.is_alias and not graph.is_plain(op.input)
