"""
Print the top module in SystemVerilog: an instance for each block, streams between them, and two
ports.

The sizes of a layer are parameters of the instance. Tables and weights are files of hexadecimal
words. A stream with several consumers is forked. If the rows of the result are not in order, a ring
buffer restores the order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import (
    Addition,
    Block,
    Convolution,
    Feature,
    FunctionTable,
    MaxPool,
    Pipeline,
    SumScale,
)
from ceras_ir.backends.dataflow.plan import PipelinePlan, PlannedConvolution, max_batch_rows
from ceras_ir.backends.dataflow.storage import WeightEncoding, bits, ceiling, delta_bits

ModuleParameters = dict[str, int | str]


@dataclass(frozen=True)
class MemoryFile:
    """The initial contents of a memory of the circuit: unsigned words of `width` bits."""

    words: list[int]
    width: int

    def text(self) -> str:
        """Return the text of the file that the Verilog task `$readmemh` loads."""
        digits = ceiling(self.width, 4)
        return "".join(f"{word:0{digits}x}\n" for word in self.words)


@dataclass
class Memories:
    """The files of memory contents of a project, by name."""

    files: dict[str, MemoryFile] = field(default_factory=dict[str, MemoryFile])

    def add(self, name: str, words: list[int], width: int) -> str:
        """
        Add the file `name.mem` with `words` of `width` bits. Return the name of the file as a
        string literal for a parameter of a module.
        """
        self.files[f"{name}.mem"] = MemoryFile(words, width)
        return f'"{name}.mem"'


def feature_parameters(feature: Feature) -> ModuleParameters:
    """Return the module parameters `ROWS`, `CHANNELS` and `COLUMNS` for the shape of a frame."""
    return {"ROWS": feature.rows, "CHANNELS": feature.channels, "COLUMNS": feature.columns}


def _scale(scale: SumScale) -> ModuleParameters:
    return {"SHIFT": scale.shift, "LOW": scale.low, "HIGH": scale.high}


def _vector(values: list[int], width: int) -> str:
    # The first value has the least significant bits.
    word = sum(value << width * n for n, value in enumerate(values))
    return f"{len(values) * width}'h{word:x}"


def block_parameters(
    block: Block, plan: PipelinePlan, name: str, memories: Memories
) -> tuple[str, ModuleParameters]:
    """
    Return the name of the Verilog module that implements `block`, and the parameters of the
    instance `name`. Tables and weights are added to `memories`.
    """
    match block:
        case Convolution():
            return "convolution", _convolution(plan.convolutions[block], plan, name, memories)
        case MaxPool():
            return "max_pool", _max_pool(block, name, memories)
        case Addition():
            a, b = block.terms
            capacity = plan.ring_rows(block)
            words = capacity * block.feature.channels
            return "addition", feature_parameters(block.feature) | {
                "CAPACITY": capacity,
                "ADDRESS_BITS": bits(words),
                "SUM_BITS": block.sum_bits,
                "FIRST_SHIFT": a.shift,
                "SECOND_SHIFT": b.shift,
                "FIRST_SIGN": a.sign,
                "SECOND_SIGN": b.sign,
                "CONSTANT": block.constant,
            } | _scale(block.scale)
        case FunctionTable():
            words = [int(v) & 255 for v in block.table]
            table = memories.add(f"{name}_table", words, 8)
            return "function_table", {"COLUMNS": block.feature.columns, "TABLE": table}
        case _:
            raise AssertionError(block)


def pool_windows(block: MaxPool) -> int:
    """
    Return the maximum number of output rows of a pooling that are in progress at the same time:
    windows that started but are not complete.
    """
    return min(block.feature.rows, ceiling(block.windows.kernel[0], block.windows.strides[0]))


def _max_pool(block: MaxPool, name: str, memories: Memories) -> ModuleParameters:
    w, count = block.windows, pool_windows(block)
    words: list[int] = []
    for row in range(block.input.rows):
        takes = begins = ends = 0
        first = -1
        for window in range(block.feature.rows):
            start = w.strides[0] * window - w.before[0]
            inside = range(max(0, start), min(block.input.rows, start + w.kernel[0]))
            if row not in inside:
                continue
            place = 1 << window % count
            takes |= place
            begins |= place if row == inside[0] else 0
            if row == inside[-1]:
                ends |= place
                first = window if first < 0 else first
        first = max(first, 0)
        flags = takes << 2 * count | begins << count | ends
        words.append(flags << 24 | first % count << 16 | first)
    return feature_parameters(block.input) | {
        "OUT_COLUMNS": block.feature.columns,
        "KERNEL": w.kernel[1],
        "STRIDE": w.strides[1],
        "LEFT": w.before[1],
        "WINDOWS": count,
        "ROW_MAP": memories.add(f"{name}_rows", words, 3 * count + 24),
    }


def _convolution(
    planned: PlannedConvolution, plan: PipelinePlan, name: str, memories: Memories
) -> ModuleParameters:
    layer, buffer, weights, lanes = planned.layer, planned.buffer, planned.weights, planned.lanes
    w, sparse = layer.windows, lanes.encoding.is_sparse
    uniform = int(layer.weights.flat[0]) if layer.uniform and not sparse else 0
    rows = [buffer.tap_row(j) for j in range(w.kernel[0])]
    columns = [buffer.tap_column(i) for i in range(w.kernel[1])]
    taps = [
        (address + phase) << buffer.rotation_bits + buffer.shift_bits
        | rotation << buffer.shift_bits
        | shift
        for address, rotation in rows
        for phase, shift in columns
    ]
    tap_bits = buffer.address_bits + buffer.rotation_bits + buffer.shift_bits
    row_bits = buffer.address_bits + buffer.rotation_bits
    column_bits = buffer.address_bits + buffer.shift_bits
    row_map = [
        slot << 24 | bank << 16 | at
        for slot, bank, at in map(buffer.row_position, range(buffer.padded_rows))
    ]
    files: ModuleParameters = {
        "WEIGHTS": '""'
        if uniform
        else memories.add(f"{name}_weights", [*weights.words(buffer)], weights.width(buffer)),
        "BIASES": _biases(planned, name, memories),
        "ROW_MAP": memories.add(f"{name}_rows", row_map, 40),
    }
    out = layer.feature
    parameters: ModuleParameters = feature_parameters(layer.input) | {
        "OUT_ROWS": out.rows,
        "OUT_CHANNELS": out.channels,
        "OUT_COLUMNS": out.columns,
        "KERNEL_ROWS": w.kernel[0],
        "KERNEL_COLUMNS": w.kernel[1],
        "GROUP_CHANNELS": layer.weights.shape[3],
        "GROUP_BLOCKS": max(1, weights.blocks // layer.groups),
        "BLOCKS": weights.blocks,
        "FILTERS": lanes.filters,
        "SPARSE": int(sparse),
        "DELTA_BITS": delta_bits(layer) if lanes.encoding is WeightEncoding.DELTA else 0,
        "ENTRIES": weights.entries,
        "PAIRED": int(planned.is_paired),
        "PARTS": buffer.parts,
        "PART_WORDS": len(buffer.residues),
        "TOP": w.before[0],
        "PAD": layer.pad,
        "PADDED_ROWS": buffer.padded_rows,
        "SLOT_ROWS": buffer.slot_rows,
        "SLOTS": buffer.slots,
        "SLOT_WORDS": buffer.slot_words,
        "FRAME_SLOTS": buffer.frame_slots,
        "BANKS": buffer.banks,
        "STRIDE": w.strides[1],
        "PHASES": buffer.phases,
        "STARTS": _vector([start & (1 << 16) - 1 for start in buffer.starts], 16),
        "FIRST": buffer.columns.start,
        "STORED": len(buffer.columns),
        "ADDRESS_BITS": buffer.address_bits,
        "FIRST_ROWS": buffer.first_rows,
        "LAST_ROWS": buffer.last_rows,
        "GROUPS": buffer.groups,
        "ROTATION_BITS": buffer.rotation_bits,
        "SHIFT_BITS": buffer.shift_bits,
        "MOST_SHIFT": buffer.max_shift,
        "ROW_TABLE": _vector([a << buffer.rotation_bits | r for a, r in rows], row_bits),
        "TAP_TABLE": _vector(taps if lanes.encoding is WeightEncoding.DELTA else [0], tap_bits),
        "COLUMN_TABLE": _vector([p << buffer.shift_bits | s for p, s in columns], column_bits),
        "WEIGHT_BITS": layer.weight_bits,
        "UNIFORM": uniform,
        "SUM_BITS": layer.sum_bits,
        "FURTHER_BITS": layer.further_bits,
    }
    if len(layer.inputs) > 1:
        capacity = plan.ring_rows(layer)
        parameters |= {
            "RESIDUAL": 1,
            "RESIDUAL_SHIFT": layer.residual_shift,
            "RESIDUAL_CAPACITY": capacity,
            "RESIDUAL_ADDRESS_BITS": bits(capacity * out.channels),
        }
    return parameters | _scale(layer.scale) | files


def _biases(planned: PlannedConvolution, name: str, memories: Memories) -> str:
    # A word has the biases of the filters that are computed in parallel. The extra shift of a
    # filter is stored in the bits above the bias.
    layer, filters = planned.layer, planned.lanes.filters
    size = layer.sum_bits + layer.further_bits
    constants = [int(b) & (1 << layer.sum_bits) - 1 for b in layer.bias]
    if layer.further is not None:
        pairs = zip(constants, layer.further.tolist(), strict=True)
        constants = [bias | further << layer.sum_bits for bias, further in pairs]
    words = [
        sum(constant << size * n for n, constant in enumerate(constants[start : start + filters]))
        for start in range(0, len(constants), filters)
    ]
    return memories.add(f"{name}_biases", words, filters * size)


TOP_MODULE = "pipeline"
"""The name of the top module of the hardware project."""


@dataclass
class Project:
    """The text of the top module, and the files of memory contents by name."""

    top: str
    memories: Mapping[str, MemoryFile]


@dataclass
class _ModuleWriter:
    pipeline: Pipeline
    plan: PipelinePlan
    port_bytes: int
    lines: list[str] = field(default_factory=list[str])
    memories: Memories = field(default_factory=Memories)

    def instance(
        self, module: str, name: str, parameters: ModuleParameters, ports: Mapping[str, str]
    ) -> None:
        given = ",\n".join(f"      .{key}({value})" for key, value in parameters.items())
        wired = ",\n".join(f"      .{key}({value})" for key, value in ports.items())
        self.lines.append(f"  {module} #(\n{given}\n  ) {name} (\n{wired}\n  );\n")

    def wires(self, name: str, feature: Feature) -> None:
        self.lines.append(
            f"  logic {name}_valid, {name}_ready;\n"
            f"  logic [{8 * feature.columns - 1}:0] {name}_data;\n"
            f"  logic [15:0] {name}_row, {name}_channel;\n"
        )


CLOCK = {"clk": "clk", "rst": "rst"}


def _input_ports(wire: str, handshake: str, prefix: str = "in") -> dict[str, str]:
    # After a fork, each consumer has a separate handshake.
    valid, ready = handshake.split()
    return {f"{prefix}_valid": valid, f"{prefix}_ready": ready} | {
        f"{prefix}_{part}": f"{wire}_{part}" for part in ("data", "row", "channel")
    }


def _output_ports(wire: str) -> dict[str, str]:
    return {
        f"out_{part}": f"{wire}_{part}" for part in ("valid", "ready", "data", "row", "channel")
    }


def write_project(pipeline: Pipeline, plan: PipelinePlan, port_bytes: int) -> Project:
    """
    Return the top module and the memory files of a circuit. Its ports transfer `port_bytes` per
    cycle.
    """
    writer = _ModuleWriter(pipeline, plan, port_bytes)
    names = {block: f"b{n}" for n, block in enumerate((pipeline.source, *pipeline.blocks))}
    handshakes: dict[tuple[Block, int], str] = {}
    for block, name in names.items():
        writer.lines.append(f"  // {name}: {_described(block)}")
        writer.wires(name, block.feature)
        consumers = pipeline.consumers(block)
        if len(consumers) > 1:
            writer.lines.append(f"  logic [{len(consumers) - 1}:0] {name}_offers, {name}_takes;\n")
            writer.instance(
                "stream_fork",
                f"{name}_fork",
                {"READERS": len(consumers)},
                CLOCK
                | {"in_valid": f"{name}_valid", "in_ready": f"{name}_ready"}
                | {"out_valid": f"{name}_offers", "out_ready": f"{name}_takes"},
            )
        for n, consumer in enumerate(consumers):
            own = f"{name}_offers[{n}] {name}_takes[{n}]" if len(consumers) > 1 else ""
            handshakes[consumer] = own or f"{name}_valid {name}_ready"
    source = pipeline.source
    beats = ceiling(source.feature.columns, port_bytes)
    port: ModuleParameters = {"PORT_BYTES": port_bytes, "BEATS": beats}
    writer.instance(
        "stream_input",
        "port_in",
        feature_parameters(source.feature) | port,
        CLOCK
        | {"port_valid": "s_axis_tvalid", "port_ready": "s_axis_tready"}
        | {"port_data": "s_axis_tdata", "port_last": "s_axis_tlast", "errors": "input_errors"}
        | _output_ports(names[source]),
    )
    for block in pipeline.blocks:
        name = names[block]
        ports = dict(CLOCK)
        for n, operand in enumerate(block.inputs):
            prefix, wire, handshake = "second" if n else "in", names[operand], handshakes[block, n]
            if not n and block in plan.delays:
                wire, handshake = _queue(writer, block, wire, handshake, name)
            ports |= _input_ports(wire, handshake, prefix)
        module, parameters = block_parameters(block, plan, name, writer.memories)
        if module == "convolution" and len(block.inputs) == 1:
            unused = {"valid": "1'b0", "ready": "", "data": "'0", "row": "'0", "channel": "'0"}
            ports |= {f"second_{part}": value for part, value in unused.items()}
        writer.instance(module, f"{name}_block", parameters, ports | _output_ports(name))
    _output(writer, names[pipeline.result])
    return Project(_module(writer, source.feature, pipeline.result.feature), writer.memories.files)


def _queue(
    writer: _ModuleWriter, block: Block, wire: str, handshake: str, name: str
) -> tuple[str, str]:
    # Return the wires and the handshake of the queue before the first operand.
    feature, words, queued = block.input, writer.plan.delays[block], f"{name}_queued"
    writer.wires(queued, feature)
    sizes: ModuleParameters = {
        "COLUMNS": feature.columns,
        "ROW_BITS": bits(feature.rows),
        "CHANNEL_BITS": bits(feature.channels),
        "DEPTH": words,
        "ADDRESS_BITS": bits(words),
    }
    ports = CLOCK | _input_ports(wire, handshake) | _output_ports(queued)
    writer.instance("stream_fifo", f"{name}_queue", sizes, ports)
    return queued, f"{queued}_valid {queued}_ready"


def _described(block: Block) -> str:
    f = block.feature
    return f"{block.name}: {f.rows} rows, {f.channels} channels, {f.columns} columns"


def in_order(pipeline: Pipeline, plan: PipelinePlan) -> bool:
    """
    Return whether the last block sends the rows of the result in order. This is so if each batch,
    the rows that are sent together, has a single row.
    """
    return max_batch_rows(pipeline.result, plan.convolutions) == 1


def _output(writer: _ModuleWriter, wire: str) -> None:
    feature = writer.pipeline.result.feature
    if not in_order(writer.pipeline, writer.plan):
        capacity = order_capacity(writer.pipeline, writer.plan)
        writer.wires("ordered", feature)
        ring: ModuleParameters = {
            "CAPACITY": capacity,
            "ADDRESS_BITS": bits(capacity * feature.channels),
        }
        writer.instance(
            "row_order",
            "order",
            feature_parameters(feature) | ring,
            CLOCK | _input_ports(wire, f"{wire}_valid {wire}_ready") | _output_ports("ordered"),
        )
        wire = "ordered"
    beats = ceiling(feature.columns, writer.port_bytes)
    writer.instance(
        "stream_output",
        "port_out",
        feature_parameters(feature) | {"PORT_BYTES": writer.port_bytes, "BEATS": beats},
        CLOCK
        | _input_ports(wire, f"{wire}_valid {wire}_ready")
        | {"port_valid": "m_axis_tvalid", "port_ready": "m_axis_tready"}
        | {"port_data": "m_axis_tdata", "port_last": "m_axis_tlast"},
    )


def order_capacity(pipeline: Pipeline, plan: PipelinePlan) -> int:
    """
    Return the number of rows in the buffer that restores the order of the rows at the output: two
    batches, rounded up to a power of two.
    """
    return 1 << (2 * max_batch_rows(pipeline.result, plan.convolutions) - 1).bit_length()


def _module(writer: _ModuleWriter, source: Feature, result: Feature) -> str:
    width = 8 * writer.port_bytes - 1
    body = "\n".join(writer.lines)
    return (
        "// Generated; the blocks are in the other files of this folder.\n"
        f"// Input frame: {source.rows} rows of {source.channels} channels of {source.columns} "
        "bytes. Each channel starts with a new beat.\n"
        f"// Output frame: {result.rows} rows of {result.channels} channels of {result.columns} "
        "bytes, in the same format.\n"
        "// A packet is a frame. Bit 0 of input_errors: a packet was too short, bit 1: too long.\n"
        f"module {TOP_MODULE} (\n"
        "    input logic clk,\n    input logic rst,\n"
        "    input logic s_axis_tvalid,\n    output logic s_axis_tready,\n"
        f"    input logic [{width}:0] s_axis_tdata,\n    input logic s_axis_tlast,\n"
        "    output logic m_axis_tvalid,\n    input logic m_axis_tready,\n"
        f"    output logic [{width}:0] m_axis_tdata,\n    output logic m_axis_tlast,\n"
        "    output logic [1:0] input_errors\n"
        f");\n{body}endmodule\n"
    )
