"""
The rules of blocks, each with a reason: the value found, the values accepted, and the way out;
and the run of operations that becomes the pipeline.

1. `blocks.py` makes blocks from the same facts; a rule that admits too much is an assertion there.
2. A circuit has two ports. Between two places with a single live value, all operations are on the
   device or none; of several such runs, the run with the most products is selected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, LinearOperation
from ceras_ir.dialects.graph.elementwise import Binary
from ceras_ir.dialects.graph.pooling import Pool, Pool2dOp
from ceras_ir.dialects.mem import device_of
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.network.integer import Averaging, averaging
from ceras_ir.targets.capabilities import Accelerator
from ceras_ir.transforms.memory.liveness import steps

DATAFLOW = "dataflow"
"""What `#mem.device` calls the circuit."""

MOST_EXTENT = 1 << 12
"""Rows, channels and columns of a feature map: streams count them in 16 bits, over frames."""

WIDE_WEIGHT = (1 << 17) - 1
"""The largest multiplier of an average: multipliers are at least 18 bits wide."""


def why_not_int8(*values: SSAValue) -> str | None:
    """Streams carry int8 with one scale and zero point per tensor."""
    for value in values:
        element = graph.quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"streams carry int8, got {graph.element_of(value)}: quantize to i8"
        if element.is_per_axis:
            return f"a stream has one scale, got {element}: quantize per tensor"
    return None


def why_not_shape(*values: SSAValue) -> str | None:
    """Streams are [N, H, W, C] or [N, C], at most 4096 of each."""
    for value in values:
        shape = graph.shape_of(value)
        if len(shape) not in (2, 4) or max(shape) > MOST_EXTENT:
            return (
                f"a stream is [N, H, W, C] or [N, C] of at most {MOST_EXTENT} each, got "
                f"{list(shape)}: split or reshape the layer"
            )
    return None


def why_not_requant(requant: RequantAttr | None) -> str | None:
    """Shifts of -15 to 31 bits rescale sums, one per layer or channel, rounding half up or down."""
    if requant is None:
        return "a block rescales its sums, and this one has no scale: quantize it"
    least, most = min(requant.net_shifts), max(requant.net_shifts)
    if any(m & (m - 1) for m in requant.multipliers):
        return f"blocks shift, got a multiplier of {requant.multiplier.data}: use scales of 2^n"
    if least < 0 and least != most:
        return f"channels differ by shifts to the right, got {least} to {most}: quantize per tensor"
    for shift in (least, most):
        if not -15 <= shift <= 31:
            return f"a block shifts by -15 to 31 bits, got {shift}: quantize with other scales"
    if most > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"blocks round half up or down, got {requant.mode.value}: quantize with half_up"
    if least < 0 and requant.zero_point.data % (1 << -least):
        return f"the zero point {requant.zero_point.data} is no multiple of 2^{-least}: use another"
    return None


def why_not_linear(op: graph.LinearOperation) -> str | None:
    """Convolutions and matrix products have constant int8 weights without zero points."""
    if op.table is not None:
        return "a table is a block of its own: leave fuse-lookup out"
    if any(v is not None and graph.constant_array(v) is None for v in (op.weights, op.bias)):
        return "weights and bias are memories of the circuit: fold what computes them"
    weights = graph.quantized_element(op.weights)
    if weights is None or weights.storage.width.data != 8:
        return f"weights are int8, got {graph.element_of(op.weights)}: quantize to i8"
    if any(point.data for point in weights.zero_points):
        return "weights have no zero point: quantize them symmetrically"
    residual = () if op.residual is None else (op.residual,)
    if any(graph.constant_array(v) is not None for v in (op.input, *residual)):
        return "operands are streams, got a constant: fold it into the bias"
    values = (op.input, op.result, *residual)
    return (
        why_not_int8(*values)
        or why_not_shape(*values)
        or why_not_requant(op.requant)
        or why_not_residual_shifts(op)
    )


def why_not_residual_shifts(op: graph.LinearOperation) -> str | None:
    """A residual goes left by as many bits more in a channel as its sums go right."""
    if op.residual is None or op.requant is None:
        return None
    apart = np.array(op.requant.net_shifts) - np.array(op.residual_shifts)
    if len(set(apart.tolist())) > 1:
        return (
            f"a residual goes left by {op.residual_shifts} bits where sums go right by "
            f"{op.requant.net_shifts}, by other differences: quantize per tensor"
        )
    return None


def average_of(op: Pool2dOp) -> Averaging | None:
    """The average as a product with one weight, if it is exact for every sum."""
    element = graph.quantized_element(op.input)
    assert op.requant is not None and element is not None
    kh, kw = op.window
    point = element.zero_point
    return averaging(kh * kw, op.requant, point, max_multiplier=WIDE_WEIGHT, product_limit=1 << 40)


def why_not_pool(op: Pool2dOp) -> str | None:
    """Windows of maxima have no gaps; averages divide by one number, exactly by 17 bits."""
    if (reason := why_not_int8(op.input, op.result) or why_not_shape(op.input)) is not None:
        return reason
    if op.function is Pool.MAX:
        if any(d != 1 for d in op.dilations.get_values()):
            return (
                f"windows of maxima have no gaps, got dilations {list(op.dilations.get_values())}"
            )
        return None
    if any(op.padding.get_values()) and not op.includes_padding:
        return "averages at the border divide by less: pad explicitly, or count_include_pad"
    if average_of(op) is None:
        return f"no exact multiplier of 17 bits divides by {list(op.window)}: use a smaller window"
    return None


def why_not_addition(op: graph.BinaryOp) -> str | None:
    """Additions and subtractions have two streams of one shape, and factors of 2^n."""
    if op.function not in (Binary.ADD, Binary.SUB):
        return f"blocks add and subtract, got {op.function.value}: run it on the CPU"
    if any(graph.constant_array(v) is not None for v in (op.lhs, op.rhs)) or op.lhs is op.rhs:
        return "an addition has two streams: fold constants into the layer before"
    if graph.shape_of(op.lhs) != graph.shape_of(op.rhs):
        return "the two streams of an addition have one shape: expand the smaller one"
    if any(f & (f - 1) for f in op.factors):
        return f"operands are shifted, got factors {list(op.factors)}: use scales of 2^n"
    if op.requant is not None and op.requant.is_per_channel:
        return "an addition has one scale: quantize its result per tensor"
    values = (op.lhs, op.rhs, op.result)
    return why_not_int8(*values) or why_not_shape(*values) or why_not_requant(op.requant)


def why_not_lookup(op: graph.LookupOp) -> str | None:
    """A table of 256 entries is the same for all channels."""
    if op.channel_rows is not None:
        return "a block has one table for all channels: quantize per tensor"
    return why_not_int8(op.input, op.result) or why_not_shape(op.input)


def why_not_reshape(op: graph.ReshapeOp) -> str | None:
    """A reshape only flattens [N, H, W, C] to [N, C]."""
    before, after = graph.shape_of(op.input), graph.shape_of(op.result)
    if len(before) == 4 and len(after) == 2 and before[0] == after[0]:
        return why_not_int8(op.input) or why_not_shape(op.input)
    return f"a stream can only be flattened to [N, C], got {list(before)} to {list(after)}"


OTHERS = (
    "blocks are convolutions, matrix products, pooling, additions and tables of int8; the CPU runs "
    "what leads to them and what follows"
)


def why_not(op: Operation) -> str | None:
    """None if a block computes `op`; else one sentence."""
    match op:
        case graph.LinearOperation():
            return why_not_linear(op)
        case Pool2dOp():
            return why_not_pool(op)
        case graph.BinaryOp():
            return why_not_addition(op)
        case graph.LookupOp():
            return why_not_lookup(op)
        case graph.ReshapeOp():
            return why_not_reshape(op)
        case _:
            return OTHERS


RULES: tuple[Callable[..., str | None], ...] = (
    why_not_linear,
    why_not_requant,
    why_not_residual_shifts,
    why_not_pool,
    why_not_addition,
    why_not_lookup,
    why_not_reshape,
    why_not_int8,
    why_not_shape,
)
"""All of them."""


@dataclass(frozen=True)
class PipelineRun:
    """Consecutive operations with a single input value and a single result."""

    value: SSAValue
    operations: Sequence[Operation]
    result: SSAValue

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.operations if isinstance(op, LinearOperation))


def runs(main: FuncOp) -> list[PipelineRun]:
    """All runs of operations placed on the device, each of maximum length."""
    operations = steps(main)
    cuts = _cuts(main, operations)
    found: list[PipelineRun] = []
    start: int | None = None
    for place in sorted(cuts):
        if start is not None and all(device_of(op) == DATAFLOW for op in operations[start:place]):
            if found and found[-1].operations[-1] is operations[start - 1] and start > 0:
                before = found.pop()
                run = [*before.operations, *operations[start:place]]
                found.append(PipelineRun(before.value, run, cuts[place]))
            else:
                found.append(PipelineRun(cuts[start], operations[start:place], cuts[place]))
        start = place
    return found


def _cuts(main: FuncOp, operations: Sequence[Operation]) -> dict[int, SSAValue]:
    """Positions before operations, or after the last, with a single live value, and the value."""
    position = {op: n for n, op in enumerate(operations)}
    alive: dict[SSAValue, tuple[int, int]] = {}
    values = [*main.body.block.args, *(r for op in operations for r in op.results)]
    for value in values:
        made = position.get(value.owner, -1) if isinstance(value.owner, Operation) else -1
        used = max((position.get(u.operation, len(operations)) for u in value.uses), default=-1)
        alive[value] = (made, used)
    found: dict[int, SSAValue] = {}
    for place in range(len(operations) + 1):
        live = [v for v, (made, used) in alive.items() if made < place <= used]
        if len(live) == 1 and not isinstance(live[0].owner, ConstantOp):
            found[place] = live[0]
    return found


def pipeline_run(main: FuncOp) -> PipelineRun | None:
    """The run that becomes the circuit: the run with the most products, or None without any."""
    best = max(runs(main), key=lambda run: run.macs, default=None)
    return best if best is not None and best.macs else None


class PipelineAccelerator(Accelerator):
    """A block for each layer that the rules admit; without times, as it works next to the CPU."""

    device = DATAFLOW

    def why_not(self, op: Operation) -> str | None:
        return why_not(op)
