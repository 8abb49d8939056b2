"""
The time that the layers of a printed model take: instructions on a microcontroller, rates on a
host. `benchmarks/predicted_times.py` compares both models with counts and measured times.

The coefficients of instructions were counted under qemu with -Os, layer by layer, over the networks
of that benchmark. Those of windows and transforms for SMLAD are in `linear_dsp`, those of encoded
weights in `ordered_rows` and `sparse_code`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.c.board import Board
from ceras_ir.backends.c.dsp_tiles import COLUMNS
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_dsp import ways
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.options import Machine
from ceras_ir.backends.c.ordered_rows import (
    INSTRUCTIONS_PER_SPARSE_ROW,
    INSTRUCTIONS_PER_SPARSE_WEIGHT,
)
from ceras_ir.backends.c.sparse_code import SPARSE, core_cost
from ceras_ir.backends.c.sums import Geometry, analyse
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import CPU
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.transforms.quantization.analysis.time_model import time_of_operation

PER_CHANNEL = 16.0
"""More for an output whose channel has its own multiplier."""

WIDE_TAP, WIDE_OUTPUT, STRIDED = 3.0, 5.0, 1.25
"""Depthwise by SMLAD: of a tap and an output, and the factor of larger strides."""

PAIR, PAIR_OUTPUT = 0.77, 10.5
"""1x1 windows by SMLAD: of a product and an output."""

ROW_PAIR, ROW_OUTPUT = 1.8, 15.0
"""Few positions by SMLAD."""

WINDOW, DIRECT, PORTABLE_OUTPUT, GATHERED = 7.2, 3.9, 24.0, 3.0
"""In portable C: of a product of a window and of a plain row, an output, an input of a window."""

FLOAT_PRODUCT, FLOAT_OUTPUT = 3.5, 45.0
SOFT, SOFT_DIRECT, SOFT_OUTPUT = 80.0, 53.0, 300.0
"""Of floats: with a floating-point unit, and by the compiler's library."""

MAXIMUM = (7.5, 25.0)
AVERAGE = (6.0, 27.0)
"""Of a tap and an output of a pooling window."""

ELEMENTS: dict[str, tuple[float, float]] = {
    "binary": (22.0, 22.0),
    "concat": (1.2, 1.2),
    "dequantize": (7.0, 56.0),
    "lookup": (5.0, 5.0),
    "pad": (1.1, 1.1),
    "quantize": (20.0, 200.0),
    "requantize": (9.0, 9.0),
    "resize": (1.0, 1.0),
    "slice": (5.0, 5.0),
    "softmax": (94.0, 1430.0),
    "transpose": (6.5, 6.5),
    "unary": (76.0, 1200.0),
}
"""Of an element of the result, with a floating-point unit and without, by operation."""

OTHER = (12.0, 60.0)
"""The same of all other operations."""

SIMPLE = (8.0, 60.0)
"""The same of a sum, a product or a clamp of floats."""

VISIT, TREE, LEAF = (15.0, 55.0), (14.0, 20.0), (8.0, 35.0)
"""The same of a node that a row comes by, of a tree, and of a number that its leaf adds."""

CHEAP = (graph.Function.RELU, graph.Function.CLIP)


def instructions(layer: Layer, board: Board) -> float:
    """Of one run of a layer."""
    op = layer.op
    soft = not board.has_float_unit
    if viewed_operand(op) is not None:
        return 0.0
    if isinstance(cycles := layer.modelled.get("cycles"), int):
        return float(cycles)
    match op:
        case graph.LinearOperation() if layer.kernel == SPARSE:
            return _sparse(layer, op)
        case graph.LinearOperation() if op.is_quantized:
            return _integer_linear(layer, op)
        case graph.LinearOperation():
            return _float_linear(op, soft=soft)
        case graph.Pool2dOp():
            tap, output = AVERAGE if op.function is graph.Pool.AVERAGE else MAXIMUM
            if soft and not _is_quantized(op.result):
                tap, output = 10 * tap, 4 * output
            return _size(op.result) * (tap * prod(op.kernel.get_values()) + output)
        case graph.UnaryOp() if op.function.kind in CHEAP:
            return SIMPLE[soft] * _size(op.result)
        case graph.BinaryOp() if not _is_quantized(op.result):
            return SIMPLE[soft] * _size(op.result)
        case graph.TreeEnsembleOp():
            trees, width = graph.shape_of(op.roots)[0], graph.shape_of(op.leaves)[1]
            each = VISIT[soft] * op.expected_visits + trees * (TREE[soft] + LEAF[soft] * width)
            return graph.shape_of(op.input)[0] * each
        case _:
            each = ELEMENTS.get(op.name.removeprefix("graph."), OTHER)
            there = sum(_size(operand) for operand in layer.in_place)
            return each[soft] * (_size(op.results[0]) - there)


def _sparse(layer: Layer, op: graph.LinearOperation) -> float:
    weights = graph.constant_array(op.weights)
    assert weights is not None
    cost = core_cost(op, weights, has_pairs=layer.options.dsp, dense=0.0)
    if cost is None:
        # The workspace that was asked for holds planes that the default one does not.
        weights_of = op.weights.owner
        assert isinstance(weights_of, graph.ConstantOp)
        return _encoded(op, weights_of, soft=False)
    return cost.sparse


def _integer_linear(layer: Layer, op: graph.LinearOperation) -> float:
    geometry, outputs = Geometry.of(op), _size(op.result)
    requant = op.requant
    more = PER_CHANNEL if requant is not None and requant.is_per_channel else 0.0
    if not layer.kernel:
        each = DIRECT if isinstance(op, graph.MatmulOp) else WINDOW
        gathered = GATHERED * geometry.positions * geometry.groups * geometry.k
        return op.macs * each + gathered + outputs * (PORTABLE_OUTPUT + more)
    if geometry.depthwise:
        assert isinstance(op, graph.Conv2dOp)
        factor = STRIDED if max(op.strides.get_values()) > 1 else 1.0
        return outputs * ((WIDE_TAP * geometry.k + WIDE_OUTPUT) * factor + more)
    if geometry.direct and geometry.positions < COLUMNS:
        return op.macs * ROW_PAIR + outputs * (ROW_OUTPUT + more)
    if geometry.direct:
        whole = -(-geometry.positions // COLUMNS) * COLUMNS * geometry.n
        return whole * (PAIR * geometry.k + PAIR_OUTPUT) + outputs * more
    assert isinstance(op, graph.Conv2dOp)
    known = ways(op, geometry, analyse(op), layer.options.workspace)
    chosen = next(way for way in known if way.kind == layer.kernel)
    return chosen.instructions + outputs * more


def _float_linear(op: graph.LinearOperation, *, soft: bool) -> float:
    weights = op.weights.owner
    if isinstance(weights, graph.ConstantOp) and weights.encoded is not None:
        return _encoded(op, weights, soft=soft)
    each = FLOAT_PRODUCT
    if soft:
        each = SOFT_DIRECT if isinstance(op, graph.MatmulOp) else SOFT
    return op.macs * each + _size(op.result) * (SOFT_OUTPUT if soft else FLOAT_OUTPUT)


def _encoded(op: graph.LinearOperation, weights: graph.ConstantOp, *, soft: bool) -> float:
    """Weights of which only those that are not zero are listed."""
    positions = op.macs // max(prod(graph.shape_of(op.weights)), 1)
    count, rows = int(weights.nonzero().sum()), graph.shape_of(op.weights)[0]
    each = INSTRUCTIONS_PER_SPARSE_WEIGHT + (SOFT_DIRECT if soft else 0.0)
    return positions * (count * each + rows * INSTRUCTIONS_PER_SPARSE_ROW)


def _size(value: SSAValue) -> int:
    return prod(graph.shape_of(value))


def _is_quantized(value: SSAValue) -> bool:
    return graph.quantized_element(value) is not None


PRODUCTS_PER_CYCLE_DSP, PRODUCTS_PER_CYCLE, BYTES_PER_CYCLE = 2.0, 1.0, 4.0
"""What an instruction of a Cortex-M does at most."""


@dataclass(frozen=True)
class Latency:
    """Microseconds of each layer by its index, and instructions where those are modelled."""

    times: Mapping[int, float]
    instructions: Mapping[int, int]
    prediction: Prediction


def annotate(entries: list[Entry], layers: Sequence[Layer], latency: Latency | None) -> None:
    """Add kernels and times to the report's entries, which may be in another order."""
    for entry, layer in zip(entries_of(entries, (x.op for x in layers)), layers, strict=True):
        if entry is None:
            continue
        entry |= layer.modelled
        if layer.kernel:
            entry["kernel"] = layer.kernel
        if latency is not None:
            entry[MICROSECONDS] = round(latency.times[layer.index], 3)
            if layer.index in latency.instructions:
                entry["instructions"] = latency.instructions[layer.index]


def latency_of(model: Model, machine: Machine | Board) -> Latency | None:
    """The prediction for a machine; None where its rates are not known."""
    if isinstance(machine, Board):
        return _on_board(model, machine)
    return _on_host(model, machine)


def _on_board(model: Model, board: Board) -> Latency | None:
    if not board.known_core.has_times:
        return None
    counts = {layer.index: round(instructions(layer, board)) for layer in model.layers}
    each = PRODUCTS_PER_CYCLE_DSP if model.options.dsp else PRODUCTS_PER_CYCLE
    prediction = Prediction(
        f"{board.title}, {board.core} at {board.clock_mhz} MHz",
        "Instructions of each kernel as counted in an emulator, at one a cycle: wait states of "
        "flash come on top.",
        (Ceiling(CPU, each * board.clock_mhz, BYTES_PER_CYCLE * board.clock_mhz),),
    )
    times = {index: count / board.clock_mhz for index, count in counts.items()}
    return Latency(times, counts, prediction)


def _on_host(model: Model, machine: Machine) -> Latency | None:
    products, moved = machine.products_per_us, machine.bytes_per_us
    if products is None or moved is None:
        return None
    prediction = Prediction(
        f"{machine.title}, one core",
        f"{products / 1000:,.0f} products of int8 in a nanosecond, and other work in proportion to "
        "them as measured on one x86-64 host; caches are not modelled.",
        (Ceiling(CPU, products, moved),),
    )
    times = {
        layer.index: time_of_operation(layer.op) / products if layer.lines else 0.0
        for layer in model.layers
    }
    return Latency(times, {}, prediction)
