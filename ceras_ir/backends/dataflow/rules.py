"""
Decide whether a block of the circuit can compute an operation, and select the operations of the
pipeline.

1. A rule returns `None` if the condition in its docstring is satisfied. Otherwise, it returns the
   reason: the finding, the limit and the remedy. `blocks.py` asserts that an operation passes the
   rules.
2. A circuit has an input port. A run, a list of operations for the circuit, has all operations on
   its device that depend only on the value at this port. Of the runs of all values, the run with
   the most products is selected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, LinearOperation
from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.operation import NO_KERNELS
from ceras_ir.dialects.graph.pooling import Pool, Pool2dOp, Resize
from ceras_ir.dialects.mem import device_of
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding
from ceras_ir.interpreters.selection import nearest_indices
from ceras_ir.network.integer import Averaging, averaging
from ceras_ir.targets.capabilities import Accelerator
from ceras_ir.transforms.memory.liveness import steps

DATAFLOW = "dataflow"
"""The name of the circuit in `#mem.device`."""

MAX_FEATURE_MAP_EXTENT = 1 << 14
"""The maximum of rows, channels and columns of a feature map. Counters have 16 bits."""

MAX_AVERAGE_MULTIPLIER = (1 << 17) - 1
"""
The largest weight of an average: 18 bits with the sign, which every multiplier of the FPGAs
supports.
"""


def why_not_int8(*values: SSAValue) -> str | None:
    """
    Streams of tables and requantizations must carry int8 with a per-tensor scale and zero point.
    """
    for value in values:
        element = graph.quantized_element(value)
        if element is None or element.width != BYTE_BITS or not element.is_signed:
            return f"streams carry int8, got {graph.element_of(value)}: quantize to i8"
    return why_not_stream(*values)


def why_not_signed(*values: SSAValue) -> str | None:
    """Streams of averages must carry signed integers of 2 to 8 bits with a per-tensor scale."""
    for value in values:
        element = graph.quantized_element(value)
        if element is not None and not element.is_signed:
            return f"averages are signed, got {element}: quantize to i{element.width}"
    return why_not_integers(*values)


def why_not_stream(*values: SSAValue) -> str | None:
    """
    Streams of convolutions, matrix products and maxima must carry integers of at most 8 bits with a
    per-tensor scale.
    """
    for value in values:
        element = graph.quantized_element(value)
        if element is None or element.width > BYTE_BITS:
            return f"streams carry 1 to 8 bits, got {graph.element_of(value)}: quantize to i8"
        if element.is_per_axis:
            return f"a stream has a single scale, got {element}: quantize per tensor"
    return None


def why_not_integers(*values: SSAValue) -> str | None:
    """
    Streams of additions, residuals, concatenations, repetitions and slices must carry integers of 2
    to 8 bits, or unsigned of 1 bit, with a per-tensor scale.
    """
    for value in values:
        element = graph.quantized_element(value)
        if element is not None and element.is_bipolar:
            return "the block computes with 2 bits or more, got -1 and 1: run it on the CPU"
    return why_not_stream(*values)


def why_not_shape(*values: SSAValue) -> str | None:
    """Streams must have the shape [N, H, W, C] or [N, C], with extents of at most 16384."""
    for value in values:
        shape = graph.shape_of(value)
        if len(shape) not in (2, 4) or max(shape) > MAX_FEATURE_MAP_EXTENT:
            return (
                "a stream is [N, H, W, C] or [N, C] with extents of at most "
                f"{MAX_FEATURE_MAP_EXTENT}, got {list(shape)}: split or reshape the layer"
            )
    return None


def why_not_requant(requant: RequantAttr | None) -> str | None:
    """
    Sums must be requantized by shifts of -15 to 31 bits per layer or channel, half up, half to even
    or down.
    """
    if requant is None:
        return "a block requantizes the sums, but there is no scale: quantize the operation"
    low, high = min(requant.net_shifts), max(requant.net_shifts)
    if any(m & (m - 1) for m in requant.multipliers):
        return f"blocks shift, got a multiplier of {requant.multiplier.data}: use scales of 2^n"
    if low < 0 and low != high:
        return f"per-channel shifts must be to the right, got {low} to {high}: quantize per tensor"
    for shift in (low, high):
        if not -15 <= shift <= 31:
            return f"a block shifts by -15 to 31 bits, got {shift}: quantize with other scales"
    if high > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.HALF_EVEN, Rounding.FLOOR):
        modes = "half up, half to even or down"
        return f"blocks round {modes}, got {requant.mode.value}: quantize with half_up"
    if low < 0 and requant.zero_point.data % (1 << -low):
        return f"the zero point {requant.zero_point.data} is no multiple of 2^{-low}: use another"
    return None


def why_not_linear(op: graph.LinearOperation) -> str | None:
    """
    Convolutions and matrix products must have constant weights of at most 8 bits without zero
    points.
    """
    if op.table is not None:
        return "a table requires a separate block: do not run fuse-lookup"
    if any(v is not None and graph.constant_array(v) is None for v in (op.weights, op.bias)):
        return "weights and bias are memories of the circuit, got computed values: fold constants"
    weights = graph.quantized_element(op.weights)
    if weights is None or weights.width > BYTE_BITS:
        return f"weights have 1 to 8 bits, got {graph.element_of(op.weights)}: quantize to i8"
    if any(point.data for point in weights.zero_points):
        return "weights have no zero point: quantize them symmetrically"
    residual = () if op.residual is None else (op.residual,)
    if any(graph.constant_array(v) is not None for v in (op.input, *residual)):
        return "operands are streams, got a constant: fold it into the bias"
    compared = comparison_of(op)
    result = op.result if compared is None else compared.result
    return (
        why_not_stream(op.input, result)
        or why_not_shape(op.input, result)
        or why_not_bipolar(op)
        or why_not_integers(*residual)
        or (why_not_requant(op.requant) if compared is None else why_not_threshold(compared))
        or why_not_residual_shifts(op)
    )


def comparison_of(op: graph.LinearOperation) -> graph.ThresholdOp | None:
    """Return the comparison with thresholds that is the only consumer of the sums of `op`."""
    users = [use.operation for use in op.result.uses]
    return users[0] if len(users) == 1 and isinstance(users[0], graph.ThresholdOp) else None


def why_not_threshold(op: graph.ThresholdOp) -> str | None:
    """
    Thresholds must compare the sums of a convolution or matrix product without a residual, and the
    results must begin at the same integer in all channels.
    """
    layer = op.input.owner
    if not isinstance(layer, graph.LinearOperation) or comparison_of(layer) is not op:
        return "thresholds compare the sums of a layer with one consumer: run it on the CPU"
    requant = layer.requant
    if layer.residual is not None or requant is None or not _keeps_sums(requant):
        return "thresholds compare sums of products: add a residual after them"
    unit, lowest = (
        graph.stored_element(op.result).unit,
        op.offsets + np.minimum(op.steps, 0) * op.levels,
    )
    if set(np.abs(op.steps).tolist()) != {unit} or len(set(lowest.tolist())) > 1:
        return f"each threshold adds or subtracts {unit} from one integer on: run it on the CPU"
    return None


def _keeps_sums(requant: RequantAttr) -> bool:
    is_shifted = any(requant.net_shifts) or any(m != 1 for m in requant.multipliers)
    is_clamped = requant.low.data > -(1 << 31) or requant.high.data < (1 << 31) - 1
    return not (is_shifted or is_clamped or requant.zero_point.data)


def why_not_bipolar(op: graph.LinearOperation) -> str | None:
    """
    Streams of -1 and 1 must have no padding and no residual, and must be results of a comparison.
    """
    if comparison_of(op) is None and graph.stored_element(op.result).is_bipolar:
        return "a requantization has more results than -1 and 1: use thresholds"
    if not graph.stored_element(op.input).is_bipolar:
        return None
    if op.residual is not None:
        return "sums of -1 and 1 have no residual: use 2 bits"
    if isinstance(op, graph.Conv2dOp) and any(op.padding.get_values()):
        return "0 is not -1 or 1, so that there is no padding: use 2 bits"
    return None


def why_not_residual_shifts(op: graph.LinearOperation) -> str | None:
    """
    The difference between the right shift and the residual shift must be equal for all channels.
    """
    if op.residual is None or op.requant is None:
        return None
    differences = np.array(op.requant.net_shifts) - np.array(op.residual_shifts)
    if len(set(differences.tolist())) > 1:
        return (
            f"the residual shifts {op.residual_shifts} and the right shifts "
            f"{op.requant.net_shifts} have different distances: quantize per tensor"
        )
    return None


def average_of(op: Pool2dOp) -> Averaging | None:
    """
    Return the multiplier, the constant and the shift with which a product computes an average
    pooling, or `None` if no multiplier gives the exact result for all inputs.
    """
    element = graph.quantized_element(op.input)
    assert op.requant is not None and element is not None
    return averaging(
        prod(op.window), op.requant, element.zero_point, max_multiplier=MAX_AVERAGE_MULTIPLIER,
        product_limit=1 << 40,
    )  # fmt: skip


def why_not_pool(op: Pool2dOp) -> str | None:
    """
    A maximum must not have dilations. An average must have a single divisor, exact with 17 bits.
    """
    values = (op.input, op.result)
    is_maximum = op.function is Pool.MAX
    reason = why_not_stream(*values) if is_maximum else why_not_signed(*values)
    if (reason := reason or why_not_shape(op.input)) is not None:
        return reason
    if is_maximum:
        dilations = list(op.dilations.get_values())
        return None if set(dilations) == {1} else f"a maximum has no dilations, got {dilations}"
    if any(op.padding.get_values()) and not op.includes_padding:
        return "averages at the border have smaller divisors: pad explicitly, or count_include_pad"
    if average_of(op) is None:
        return f"no exact multiplier of 17 bits divides by {list(op.window)}: use a smaller window"
    return None


def why_not_addition(op: graph.BinaryOp) -> str | None:
    """Additions and subtractions must have two streams of equal shape, and factors of 2^n."""
    if op.function not in (Binary.ADD, Binary.SUB):
        return f"blocks add and subtract, got {op.function.value}: run it on the CPU"
    if any(graph.constant_array(v) is not None for v in (op.lhs, op.rhs)) or op.lhs is op.rhs:
        return "an addition has two streams: fold constants into the previous layer"
    if graph.shape_of(op.lhs) != graph.shape_of(op.rhs):
        return "the two streams of an addition have equal shapes: expand the smaller operand"
    if any(f & (f - 1) for f in op.factors):
        return f"operands are shifted, got factors {list(op.factors)}: use scales of 2^n"
    if op.requant is not None and op.requant.is_per_channel:
        return "an addition has a single scale: quantize the result per tensor"
    values = (op.lhs, op.rhs, op.result)
    return why_not_integers(*values) or why_not_shape(*values) or why_not_requant(op.requant)


def why_not_lookup(op: graph.LookupOp) -> str | None:
    """Tables must have 256 entries of int8, and must not depend on a channel before flattening."""
    if op.channel_rows is not None and _is_flattened(op.input):
        return "channels have tables of their own after flattening: flatten after the function"
    return why_not_int8(op.input, op.result) or why_not_shape(op.input)


def why_not_requantize(op: graph.RequantizeOp) -> str | None:
    """Requantizations outside of layers must have int8 inputs and results: they are tables."""
    return why_not_int8(op.input, op.result) or why_not_shape(op.input)


def why_not_concat(op: graph.ConcatOp) -> str | None:
    """A concatenation must join the channels of different streams."""
    if op.axis.value.data != len(graph.shape_of(op.result)) - 1:
        return f"streams are joined by channels, got axis {op.axis.value.data}: transpose before"
    if any(graph.constant_array(v) is not None for v in op.inputs):
        return "operands are streams, got a constant: add it after the concatenation"
    if len(set(op.inputs)) < len(op.inputs):
        return "an operand occurs twice: repeat the weights of the next layer instead"
    if any(_is_flattened(v) for v in op.inputs):
        return "operands are flattened feature maps: flatten after the concatenation"
    return why_not_integers(*op.inputs) or why_not_shape(*op.inputs, op.result)


def why_not_resize(op: graph.ResizeOp) -> str | None:
    """A resize must repeat each row and column the same number of times."""
    if op.function is not Resize.NEAREST:
        return f"a block repeats rows and columns, got {op.function.value}: use nearest"
    mode, rounding = op.coordinates.data, op.rounding.data
    before, after = graph.shape_of(op.input), graph.shape_of(op.result)
    for axis, scale in zip((1, 2), op.factors, strict=True):
        factor, rest = divmod(after[axis], before[axis])
        found = nearest_indices(before[axis], after[axis], scale, mode, rounding)
        if rest or found != [i // factor for i in range(after[axis])]:
            return (
                f"a block repeats each row and column, got {list(before)} to {list(after)} with "
                f"{mode.value} and {rounding.value}: use integer factors with asymmetric and floor"
            )
    return why_not_integers(op.input) or why_not_shape(op.input, op.result)


def why_not_slice(op: graph.SliceOp) -> str | None:
    """A slice must select ranges of rows, channels and columns without strides."""
    if any(stride != 1 for stride in op.strides.get_values()):
        return f"a block selects ranges, got strides {list(op.strides.get_values())}: use strides 1"
    if graph.shape_of(op.input)[0] != graph.shape_of(op.result)[0]:
        return "all frames pass through the circuit, got a slice of the batch: use all samples"
    if _is_flattened(op.input):
        return "the operand is a flattened feature map: slice before flattening"
    return why_not_integers(op.input) or why_not_shape(op.input)


def _is_flattened(value: SSAValue) -> bool:
    # Whether a stream has several rows or columns, although the value is [N, C].
    op = value.owner
    while isinstance(op, graph.LookupOp):
        op = op.input.owner
    return isinstance(op, graph.ReshapeOp) and prod(graph.shape_of(op.input)[1:-1]) > 1


def why_not_reshape(op: graph.ReshapeOp) -> str | None:
    """A reshape must flatten [N, H, W, C] to [N, C]."""
    before, after = graph.shape_of(op.input), graph.shape_of(op.result)
    if len(before) == 4 and len(after) == 2 and before[0] == after[0]:
        return why_not_stream(op.input) or why_not_shape(op.input)
    return f"a stream can only be flattened to [N, C], got {list(before)} to {list(after)}"


def why_not(op: Operation) -> str | None:
    """Return the reason why no block can compute `op`, or `None` if one can."""
    if isinstance(op, graph.GraphOperation) and op.has_kernel_form:
        return NO_KERNELS
    match op:
        case graph.LinearOperation():
            return why_not_linear(op)
        case graph.ThresholdOp():
            layer = op.input.owner
            is_sum = isinstance(layer, graph.LinearOperation)
            return why_not_threshold(op) or (why_not_linear(layer) if is_sum else None)
        case Pool2dOp():
            return why_not_pool(op)
        case graph.BinaryOp():
            return why_not_addition(op)
        case graph.LookupOp():
            return why_not_lookup(op)
        case graph.RequantizeOp():
            return why_not_requantize(op)
        case graph.ConcatOp():
            return why_not_concat(op)
        case graph.ResizeOp():
            return why_not_resize(op)
        case graph.SliceOp():
            return why_not_slice(op)
        case graph.ReshapeOp():
            return why_not_reshape(op)
        case _:
            return (
                "blocks are convolutions, matrix products, pooling, additions, tables, "
                "concatenations, repetitions and slices of int8; the CPU executes all operations "
                "before and after them"
            )


PIPELINE_RULES: tuple[Callable[..., str | None], ...] = (
    why_not_linear,
    why_not_requant,
    why_not_residual_shifts,
    why_not_threshold,
    why_not_bipolar,
    why_not_pool,
    why_not_addition,
    why_not_lookup,
    why_not_requantize,
    why_not_concat,
    why_not_resize,
    why_not_slice,
    why_not_reshape,
    why_not_stream,
    why_not_integers,
    why_not_signed,
    why_not_int8,
    why_not_shape,
)


@dataclass(frozen=True)
class PipelineRun:
    """Operations that can become a circuit: they depend on a single value, except for constants."""

    value: SSAValue
    operations: Sequence[Operation]

    @property
    def results(self) -> list[SSAValue]:
        """The values that other operations use, or that the network returns."""
        inside = set(self.operations)
        values = [value for op in self.operations for value in op.results]
        return [v for v in values if any(use.operation not in inside for use in v.uses)]

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.operations if isinstance(op, LinearOperation))


def _run(value: SSAValue, operations: Sequence[Operation]) -> PipelineRun:
    known, found = {value}, list[Operation]()
    for op in operations:
        operands = {v for v in op.operands if not isinstance(v.owner, ConstantOp)}
        if device_of(op) == DATAFLOW and operands and operands <= known:
            known |= set(op.results)
            found.append(op)
    return PipelineRun(value, found)


def pipeline_run(main: FuncOp) -> PipelineRun | None:
    """
    Return the run with the most products (`macs`), which becomes the circuit; of several, the run
    with the most operations. Return `None` if no run has a convolution or matrix product.
    """
    operations = steps(main)
    values = [*main.body.block.args, *(v for op in operations for v in op.results)]
    runs, inside = list[PipelineRun](), set[SSAValue]()
    for value in values:
        # The run from a result inside another run is a part of that run.
        if value not in inside:
            run = _run(value, operations)
            runs.append(run)
            inside.update(result for op in run.operations for result in op.results)
    best = max(runs, key=lambda run: (run.macs, len(run.operations)), default=None)
    return best if best is not None and best.macs else None


class PipelineAccelerator(Accelerator):
    """
    The rules of the pass `place` for operations that run on the circuit. The circuit executes each
    operation that the rules accept; times are not compared.
    """

    device = DATAFLOW

    def why_not(self, op: Operation) -> str | None:
        return why_not(op)
