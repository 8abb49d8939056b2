"""
Predict the memory and the time of a printed model, without a compiler.

Constants and buffers are exact, alignment included. Code is estimated from the operators in the C
text, with coefficients measured with gcc 12 -Os; `test/backends/arduino/test_sizes.py` checks the
error. Times are instructions on a microcontroller, counted under qemu with -Os, and rates on a
host; `benchmarks/predicted_times.py` compares them with counts and measured times.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.c.constants import ReadOnlyArray, selected
from ceras_ir.backends.c.dsp_tiles import TILE_COLUMNS, TILE_ROWS, RowChunks
from ceras_ir.backends.c.helium_elementwise import (
    INSTRUCTIONS_PER_BLOCK,
    LOOKUP_PER_BLOCK,
    pooling_instructions,
)
from ceras_ir.backends.c.helium_tiles import BLOCK
from ceras_ir.backends.c.host_times import HostTimes
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_dsp import PAIR_CYCLES, PAIR_OUTPUT, ways
from ceras_ir.backends.c.linear_helium import HELIUM, helium_cost
from ceras_ir.backends.c.machines import LEVEL_COSTS, Board, Core, Level, Machine
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.ordered_rows import (
    INSTRUCTIONS_PER_SPARSE_ROW,
    INSTRUCTIONS_PER_SPARSE_WEIGHT,
)
from ceras_ir.backends.c.source import model_source
from ceras_ir.backends.c.sparse_code import SPARSE, core_cost, packed_bytes
from ceras_ir.backends.c.sums import Geometry, analyse
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.graph.camera import PACKED, PLANAR
from ceras_ir.dialects.graph.pooling import Resize
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.storage import weight_type
from ceras_ir.pipeline.report import Entry, entries_of
from ceras_ir.pipeline.summary import used_bytes
from ceras_ir.support.diagnostics import node_name, remark
from ceras_ir.targets import MICROSECONDS, Ceiling, Prediction
from ceras_ir.transforms.memory import liveness

BYTES_PER_INSTRUCTION = 4
"""Bytes of an assembler instruction; few instructions have a short form."""

START_UP_BYTES = 700
"""The bytes of flash for interrupt vectors, start-up code, memcpy, memset and the caller."""

_OPERATOR = re.compile(r"[-+*/<>=?&|]+|\[|(?<=\w)\(")
"""Operators, indices and calls. Parentheses of expressions and casts have no code."""
_POINTER = re.compile(r"\b(?:\w+_t|float|void|char|model_row)\s*\*+")
"""Pointer types, which have no code."""
_LITERALS = re.compile(r"[0-9]f\b")
"""Float literals, which are stored in flash next to the code."""
_INSTRUCTION = re.compile(r'^ *"([^"]*)\\n\\t"', re.MULTILINE)
_VARIANT = re.compile(r"__ARM_FEATURE_DSP|__ARM_FEATURE_MVE|MODEL_HELIUM")
"""Conditions that hold on all cores for which the text has kernels."""
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)


def code_bytes(text: str, core: Core, level: Level) -> int:
    """
    Return the estimated bytes of machine code for the C source `text`, compiled for `core` with an
    optimization level such as `-Os`.
    """
    compiled = _for_core(_COMMENTS.sub("", text))
    text = _POINTER.sub("", _INSTRUCTION.sub("", compiled))
    operators = len(_OPERATOR.findall(text))
    fixed = BYTES_PER_INSTRUCTION * _assembler(compiled) + 4 * len(_LITERALS.findall(compiled))
    return round(core.bytes_per_operator * LEVEL_COSTS[level].code * operators) + fixed


def _for_core(text: str) -> str:
    """
    Remove alternatives for cores without DSP or Helium from C text: of an `#if` with a condition
    such as `__ARM_FEATURE_DSP`, only the lines before `#else` remain.
    """
    lines: list[str] = []
    conditions: list[bool | None] = []
    for line in text.splitlines():
        if line.startswith("#if"):
            conditions.append(True if _VARIANT.search(line) else None)
        elif line.startswith("#else") and conditions and conditions[-1] is not None:
            conditions[-1] = False
        elif line.startswith("#endif") and conditions:
            conditions.pop()
        elif False not in conditions:
            lines.append(line)
    return "\n".join(lines)


def _assembler(text: str) -> int:
    """
    Return the number of machine instructions in the assembler statements of the C source `text`.
    The instructions between `.rept 4` and `.endr` count four times.
    """
    count, times = 0, 1
    for instruction in _INSTRUCTION.findall(text):
        if instruction.startswith((".rept", ".endr")):
            times = int((*instruction.split(), 1)[1])
        elif not instruction.endswith(":"):
            count += times
    return count


def constant_bytes(constants: Sequence[ReadOnlyArray]) -> int:
    """
    Return the bytes of flash for constants in this order, with the padding for alignment.
    """
    end = 0
    for constant in selected(constants):
        align = constant.alignment
        end = -(-end // align) * align + constant.nbytes
    return end


@dataclass(frozen=True)
class LayerSize:
    """
    The bytes of flash for code and constants of a layer, and the bytes of SRAM in use while it
    runs.
    """

    name: str
    flash: int
    sram: int
    kernel: str


@dataclass(frozen=True)
class Footprint:
    """The bytes of flash and SRAM that a model needs on a board."""

    board: Board
    layers: list[LayerSize]
    constants: int
    code: int
    arena: int
    buffers: int
    """The bytes of SRAM for the inputs and outputs of the sketch."""
    widest: tuple[int, int] | None = None
    """
    The outputs of the widest hidden layer in a chain of matrix products, and the maximum that fits.
    """

    @property
    def flash(self) -> int:
        return self.constants + self.code

    @property
    def sram(self) -> int:
        return self.arena + self.buffers

    @property
    def excess(self) -> tuple[int, int]:
        """The bytes of SRAM and of flash that the board lacks; 0 if the memory is sufficient."""
        sram, flash = self.sram - self.board.free_sram, self.flash - self.board.free_flash
        return max(sram, 0), max(flash, 0)

    @property
    def fits(self) -> bool:
        return self.excess == (0, 0)

    @classmethod
    def of(cls, model: PrintedModel, board: Board) -> "Footprint":
        main, core, level = model.program.main, board.known_core, model.options.level
        live, order = liveness.analyse(main).buffers, liveness.steps(main)
        pool, functions = model.pool.constants, model.functions

        def live_bytes(op: Operation) -> int:
            step = order.index(op)
            return sum(b.size for b in live if b.lower <= step < b.upper)

        def own_code_bytes(layer: Layer) -> int:
            lines = layer.lines if functions.is_own(layer) else []
            return code_bytes("\n".join(lines), core, level)

        layers = [
            LayerSize(
                node_name(layer.op),
                constant_bytes([c for c in pool if c.name.startswith(f"layer_{layer.index}_")])
                + own_code_bytes(layer),
                live_bytes(layer.op) + layer.scratch_bytes,
                layer.kernel,
            )
            for layer in model.layers
        ]
        texts = model_source(model, 0), model.kernels.text
        code = sum(code_bytes(text, core, level) for text in texts)
        code += core.float_library_bytes
        buffers = sum(t.nbytes for t in model.tensors)
        return cls(
            board, layers, constant_bytes(pool), code + START_UP_BYTES, model.arena_bytes, buffers
        )

    def to_json(self) -> dict[str, object]:
        wide = {} if self.widest is None else {"largest_hidden_that_fits": self.widest[1]}
        return {**wide, **self.sizes()}

    def sizes(self) -> dict[str, int]:
        """Return the bytes of memory, as entries of the totals in the report."""
        return {
            "flash_bytes": self.flash,
            "sram_bytes": self.sram,
            "constant_bytes": self.constants,
            "code_bytes": self.code,
            "board_flash_bytes": self.board.free_flash,
            "board_sram_bytes": self.board.free_sram,
        }

    def line(self) -> str:
        """Return a sentence about the flash and the SRAM that the model uses."""
        memories = (
            ("flash", self.flash, self.board.free_flash),
            ("SRAM", self.sram, self.board.free_sram),
        )
        parts = (f"{name} {used_bytes(used, free)}" for name, used, free in memories)
        return f"{self.board.title}: {', '.join(parts)}"

    def width_line(self) -> str:
        """
        Return a sentence about the largest width of hidden layers that would fit the board, or ""
        if the network is not a chain of matrix products.
        """
        if self.widest is None:
            return ""
        now, max_width = self.widest
        return (
            f"hidden layers of up to {max_width:,} would fit as they are stored now; "
            f"they have {now:,}"
        )


PER_CHANNEL = 16.0
"""The additional instructions per output with per-channel multipliers."""

WIDE_TAP, WIDE_OUTPUT, STRIDED, WIDENED_TAP = 3.0, 5.0, 1.25, 3.0
"""
Depthwise convolution with SMLAD: instructions per tap and per output, the factor of larger strides,
and instructions to widen a tap of a filter.
"""

ROW_ELEMENT, ROW_OUTPUT = 2.5, 12.0
"""Instructions per element and per output with SMLAD, for layers with few positions."""

WINDOW, DIRECT, PORTABLE_OUTPUT, GATHERED = 7.2, 3.9, 24.0, 3.0
"""Portable C: instructions per window product, row product, output, and window element."""

FLOAT_PRODUCT_CYCLES, FLOAT_OUTPUT = 3.5, 45.0
SOFT, SOFT_DIRECT, SOFT_OUTPUT = 80.0, 53.0, 300.0
"""
Instructions per product of a convolution, per product of a matrix product, and per output, for
floats on a core without floating-point unit.
"""

MAXIMUM = (7.5, 25.0)
AVERAGE = (6.0, 27.0)
"""Instructions per tap and output of a pooling window."""

CORE_CYCLES_PER_ELEMENT: dict[str, tuple[float, float]] = {
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
"""Instructions per element of the result, with and without floating-point unit, by operation."""

OTHER_CYCLES, SIMPLE = (12.0, 60.0), (8.0, 60.0)
"""Instructions per element of all other operations, and of a float sum, product or clamp."""

PIXEL_OF_YUV, PIXEL_OF_FRAME = (14.0, 55.0), 27.0
"""Instructions to decode a pixel of YUV to gray or to three channels, and of other formats."""
PIXEL_WEIGHTED, PIXEL_PLACED = 20.0, 20.0
"""Instructions per channel of the mean of four pixels, and per pixel without a mean."""

VISIT, TREE, LEAF = (15.0, 55.0), (14.0, 20.0), (8.0, 35.0)
"""Instructions per visited node, per tree, and per value that a leaf adds."""

BLOCK_PRODUCT, BLOCK_SUM, BLOCK_PRODUCT_DSP = (7.7, 12.7), (20.0, 384.0), 3.0
"""
Instructions per product with packed weights of 4 bits in blocks and per sum of a block, with and
without floating-point unit, and per product with SMLAD. The network is a product of 512 by 512.
"""
BLOCK_HELIUM = 0.33, 13.0
"""The same per product and per sum with Helium, on products of 512 by 512 and 48 by 256."""

CHEAP = (graph.Function.RELU, graph.Function.CLIP)


def model_cycles(model: PrintedModel, board: Board, level: Level) -> float:
    """
    Return the modelled cycles of a run of the network, compiled with the optimization level
    `level`.
    """
    return sum(cycles(layer, board, level) for layer in model.layers)


def instructions(layer: Layer, board: Board, level: Level = "-Os") -> float:
    """
    Return the modelled instructions of a run of a layer, compiled with the optimization level
    `level`.
    """
    costs = LEVEL_COSTS[level]
    if layer.kernel == HELIUM:
        share = 1.0  # The kernels are in assembler.
    elif layer.kernel:
        share = costs.kernels
    elif not any(map(_is_quantized, layer.op.operands)):
        share = costs.floats
    else:
        share = costs.loops if board.has_dsp else costs.small_loops
    return share * _small_instructions(layer, board)


HELIUM_CYCLES = 1.6
"""Modelled cycles of an instruction of layers without products, which are mostly arithmetic."""


def cycles(layer: Layer, board: Board, level: Level = "-Os") -> float:
    """
    Return the modelled cycles of a run of a layer. Each instruction needs a cycle; with Helium, a
    vector instruction needs two.
    """
    if layer.kernel != HELIUM:
        return instructions(layer, board, level)
    if isinstance(layer.op, graph.LinearOperation):
        return helium_cost(layer.op, layer.options.workspace).cycles
    return HELIUM_CYCLES * instructions(layer, board, level)


def _small_instructions(layer: Layer, board: Board) -> float:
    """Return the modelled instructions of a run of a layer that is compiled with -Os."""
    op = layer.op
    soft = not board.has_float_unit
    if viewed_operand(op) is not None:
        return 0.0
    if isinstance(cycles := layer.modelled.get("cycles"), int):
        return float(cycles)
    match op:
        case graph.BlockMatmulOp():
            each = BLOCK_PRODUCT_DSP if layer.options.dsp else BLOCK_PRODUCT[soft]
            total = BLOCK_SUM[soft]
            if layer.options.helium and op.width == 4 and op.block_size % 32 == 0:
                each, total = BLOCK_HELIUM
            each += total / op.block_size
            quantizing = CORE_CYCLES_PER_ELEMENT["quantize"][soft] * _size(op.input)
            return each * op.macs + quantizing
        case graph.LinearOperation() if layer.kernel == SPARSE:
            return _sparse(layer, op)
        case graph.LinearOperation() if op.is_quantized:
            return _integer_linear(layer, op)
        case graph.LinearOperation():
            return _float_linear(op, soft=soft)
        case graph.Pool2dOp() if layer.kernel == HELIUM:
            return pooling_instructions(op)
        case graph.LookupOp() if layer.kernel == HELIUM:
            return -(-_size(op.result) // BLOCK) * LOOKUP_PER_BLOCK
        case graph.Pool2dOp():
            tap, output = AVERAGE if op.function is graph.Pool.AVERAGE else MAXIMUM
            if soft and not _is_quantized(op.result):
                tap, output = 10 * tap, 4 * output
            return _size(op.result) * (tap * prod(op.kernel.get_values()) + output)
        case graph.DecodeFrameOp():
            return _frame(op)
        case graph.UnaryOp() if op.function.data in CHEAP:
            return SIMPLE[soft] * _size(op.result)
        case graph.BinaryOp() if layer.kernel == HELIUM:
            return -(-_size(op.result) // BLOCK) * INSTRUCTIONS_PER_BLOCK
        case graph.BinaryOp() if not _is_quantized(op.result):
            return SIMPLE[soft] * _size(op.result)
        case graph.TreeEnsembleOp():
            trees, width = graph.shape_of(op.roots)[0], graph.shape_of(op.leaves)[1]
            each = VISIT[soft] * op.expected_visits + trees * (TREE[soft] + LEAF[soft] * width)
            return graph.shape_of(op.input)[0] * each
        case _:
            each = CORE_CYCLES_PER_ELEMENT.get(op.name.removeprefix("graph."), OTHER_CYCLES)
            there = sum(_size(operand) for operand in layer.in_place)
            return each[soft] * (_size(op.results[0]) - there)


def _frame(op: graph.DecodeFrameOp) -> float:
    _, height, width, depth = graph.shape_of(op.result)
    is_yuv = op.format.data in PACKED | PLANAR
    color = PIXEL_OF_YUV[depth > 1] if is_yuv else PIXEL_OF_FRAME
    # `linear` combines four pixels, unless each pixel of the image is a pixel of the frame.
    is_weighted = op.kind.data is Resize.LINEAR and op.region[2:] != (height, width)
    each = 4 * color + PIXEL_WEIGHTED * depth if is_weighted else color + PIXEL_PLACED
    return height * width * each


def _sparse(layer: Layer, op: graph.LinearOperation) -> float:
    weights = graph.constant_array(op.weights)
    assert weights is not None
    cost = core_cost(op, weights, has_pairs=layer.options.dsp, dense=0.0)
    # The requested workspace may hold planes that the default workspace does not hold.
    return _encoded(op, soft=False) if cost is None else cost.sparse


def _integer_linear(layer: Layer, op: graph.LinearOperation) -> float:
    if layer.kernel == HELIUM:
        return helium_cost(op, layer.options.workspace).instructions
    geometry, outputs = Geometry.of(op), _size(op.result)
    requant = op.requant
    more = PER_CHANNEL if requant is not None and requant.is_per_channel else 0.0
    if not layer.kernel:
        each = DIRECT if isinstance(op, graph.MatmulOp) else WINDOW
        gathered = GATHERED * geometry.positions * geometry.groups * geometry.k
        return op.macs * each + gathered + outputs * (PORTABLE_OUTPUT + more)
    if geometry.is_depthwise:
        assert isinstance(op, graph.Conv2dOp)
        factor = STRIDED if max(op.strides.get_values()) > 1 else 1.0
        widened = WIDENED_TAP * geometry.groups * geometry.k
        return outputs * ((WIDE_TAP * geometry.k + WIDE_OUTPUT) * factor + more) + widened
    if geometry.is_direct and geometry.positions < TILE_COLUMNS:
        groups = -(-geometry.n // TILE_ROWS)
        each = RowChunks.of(analyse(op).centred()).instructions
        return geometry.positions * (groups * each + ROW_ELEMENT * geometry.k) + outputs * (
            ROW_OUTPUT + more
        )
    if geometry.is_direct:
        pairs = -(-geometry.positions // TILE_COLUMNS) * TILE_COLUMNS * geometry.n
        return pairs * (PAIR_CYCLES * geometry.k + PAIR_OUTPUT) + outputs * more
    assert isinstance(op, graph.Conv2dOp)
    known = ways(op, geometry, analyse(op), layer.options.workspace)
    chosen = next(way for way in known if way.kind == layer.kernel)
    return chosen.instructions + outputs * more


def _float_linear(op: graph.LinearOperation, *, soft: bool) -> float:
    weights = op.weights.owner
    if isinstance(weights, graph.ConstantOp) and weights.encoded is not None:
        return _encoded(op, soft=soft)
    each = FLOAT_PRODUCT_CYCLES
    if soft:
        each = SOFT_DIRECT if isinstance(op, graph.MatmulOp) else SOFT
    return op.macs * each + _size(op.result) * (SOFT_OUTPUT if soft else FLOAT_OUTPUT)


def _encoded(op: graph.LinearOperation, *, soft: bool) -> float:
    weights = op.weights.owner
    assert isinstance(weights, graph.ConstantOp)
    positions = op.macs // max(prod(graph.shape_of(op.weights)), 1)
    count, rows = int(weights.nonzero().sum()), graph.shape_of(op.weights)[0]
    each = INSTRUCTIONS_PER_SPARSE_WEIGHT + (SOFT_DIRECT if soft else 0.0)
    return positions * (count * each + rows * INSTRUCTIONS_PER_SPARSE_ROW)


def _size(value: SSAValue) -> int:
    return prod(graph.shape_of(value))


def _is_quantized(value: SSAValue) -> bool:
    return graph.quantized_element(value) is not None


PRODUCTS_PER_CYCLE_HELIUM, PRODUCTS_PER_CYCLE_DSP, PRODUCTS_PER_CYCLE = 8.0, 2.0, 1.0
BYTES_PER_CYCLE = 4.0


@dataclass(frozen=True)
class Latency:
    """
    The modelled times of a run of a network: microseconds and, if known, instructions of each
    layer, by layer index.
    """

    times: Mapping[int, float]
    instructions: Mapping[int, int]
    prediction: Prediction


def annotate(entries: list[Entry], layers: Sequence[Layer], latency: Latency | None) -> None:
    """
    Add the kernel, the modelled time in microseconds and the number of instructions of each layer
    to the entry of the layer in the report. An entry belongs to a layer if both have the same
    operation; without `latency`, times are omitted. A note on stderr gives the number of layers
    with weights below 8 bits of which the kernel reads bytes.
    """
    widened = 0
    for entry, layer in zip(entries_of(entries, (x.op for x in layers)), layers, strict=True):
        if entry is None:
            continue
        entry |= layer.modelled
        if (stored := _stored_weights(layer)) is not None:
            entry["weight_bits"], entry["weight_bytes"] = stored
            widened += stored[0] == BYTE_BITS
        if layer.kernel:
            entry["kernel"] = layer.kernel
        if latency is not None:
            entry[MICROSECONDS] = round(latency.times[layer.index], 3)
            if layer.index in latency.instructions:
                entry["instructions"] = latency.instructions[layer.index]
    if widened:
        remark(
            f"target c: note: {widened} layer{'s' * (widened > 1)} with weights below 8 bits "
            f"{'are' if widened > 1 else 'is'} stored in bytes, because the kernels read "
            "bytes: 8 bits are as small and more accurate"
        )


def _stored_weights(layer: Layer) -> tuple[int, int] | None:
    """
    Return the bits in which the kernel stores constant weights that have less than 8 bits, and the
    bytes of all of them without padding; `None` for other layers.
    """
    if isinstance(layer.op, graph.BlockOperation):
        width = layer.op.width
        return (width, liveness.byte_size(layer.op.weights)) if width < BYTE_BITS else None
    element = weight_type(layer.op)
    if element is None or element.width >= BYTE_BITS:
        return None
    assert isinstance(layer.op, graph.LinearOperation)
    owner = layer.op.weights.owner
    assert isinstance(owner, graph.ConstantOp)
    bits = layer.packed_bits or BYTE_BITS
    if owner.encoded is not None:
        return bits, packed_bytes(owner.encoded)
    return bits, -(-prod(graph.shape_of(owner.result)) * bits // BYTE_BITS)


def latency_of(model: PrintedModel, machine: Machine | Board) -> Latency | None:
    """Return the modelled times of the layers on `machine`, or `None` if its speed is unknown."""
    if isinstance(machine, Machine):
        return _on_host(model, machine)
    return _on_board(model, machine) if machine.known_core.has_times else None


def _on_board(model: PrintedModel, board: Board) -> Latency:
    level = model.options.level
    counts = {layer.index: round(instructions(layer, board, level)) for layer in model.layers}
    each, pace = PRODUCTS_PER_CYCLE, "one per cycle"
    if model.options.helium:
        each, pace = PRODUCTS_PER_CYCLE_HELIUM, "two cycles for vectors unless a load overlaps"
    elif model.options.dsp:
        each = PRODUCTS_PER_CYCLE_DSP
    prediction = Prediction(
        f"{board.title}, {board.core} at {board.clock_mhz} MHz",
        f"Instructions of each kernel as counted in an emulator, {pace}; wait states of flash are "
        "not included.",
        (Ceiling(CPU, each * board.clock_mhz, BYTES_PER_CYCLE * board.clock_mhz),),
    )
    times = {x.index: round(cycles(x, board, level)) / board.clock_mhz for x in model.layers}
    return Latency(times, counts, prediction)


def _on_host(model: PrintedModel, machine: Machine) -> Latency | None:
    products, moved = machine.products_per_us, machine.bytes_per_us
    if products is None or moved is None:
        return None
    rates = HostTimes.of(model, machine)
    assert rates is not None
    caches = "caches are not modelled"
    if machine.cache_bytes is not None and machine.memory_bytes_per_us is not None:
        caches = (
            f"data beyond a cache of {machine.cache_bytes:,} bytes is loaded at "
            f"{machine.memory_bytes_per_us / 1000:,.0f} bytes in a nanosecond"
        )
    prediction = Prediction(
        f"{machine.title}, one core",
        f"{products / 1000:,.0f} products of int8 in a nanosecond, and other work in proportion to "
        f"them as measured on one x86-64 host; {caches}.",
        (Ceiling(CPU, products, moved),),
    )
    times = {layer.index: rates.microseconds(layer) for layer in model.layers}
    return Latency(times, {}, prediction)
