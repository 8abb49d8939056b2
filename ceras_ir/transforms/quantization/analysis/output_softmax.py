"""
Find the graph outputs that a softmax computes.

After a softmax, the signal-to-noise ratio depends on a few samples, because the outputs of certain
classifications are almost constant. The ratio at the input of the softmax measures the network.
"""

from math import nan

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    data_operands,
    keeps_scale,
    main_function,
    output_names,
    result_values,
)
from ceras_ir.transforms.quantization.analysis.layer_noise import NoiseMeter, layer_of


def softmax_of_outputs(main: FuncOp) -> dict[str, graph.SoftmaxOp]:
    """
    Return, by name, the softmax that computes a graph output. Data movement of a single operand,
    and conversions of the number format, may follow the softmax. Outputs without softmax are
    omitted.
    """
    found: dict[str, graph.SoftmaxOp] = {}
    for name, value in zip(output_names(main), result_values(main), strict=True):
        op = _origin(value)
        if isinstance(op, graph.SoftmaxOp):
            found[name] = op
    return found


def _origin(value: SSAValue) -> Operation | Block:
    """
    Return the operation that computes the elements of a value, before data movement and conversions
    of the number format. For graph inputs, return the block.
    """
    op = value.owner
    while isinstance(op, Operation) and _only_moves(op):
        op = data_operands(op)[0].owner
    return op


def _only_moves(op: Operation) -> bool:
    if isinstance(op, graph.QuantizeOp | graph.DequantizeOp):
        return True
    pooled = isinstance(op, graph.Pool2dOp | graph.ReduceOp)
    return keeps_scale(op) and not pooled and len(data_operands(op)) == 1


def ratios_before_softmax(meter: NoiseMeter) -> dict[str, float]:
    """
    Return, for each output that a softmax computes, the measured signal-to-noise ratio in dB at the
    input of the softmax. It is NaN if the layer before the softmax does not exist in the other
    network.
    """
    ratios: dict[str, float] = {}
    for name, softmax in softmax_of_outputs(main_function(meter.reference)).items():
        op = _origin(softmax.input)
        number = layer_of(op) if isinstance(op, Operation) else None
        layer = None if number is None else meter.layers.get(number)
        ratios[name] = nan if layer is None else layer.accumulated_ratio
    return ratios
