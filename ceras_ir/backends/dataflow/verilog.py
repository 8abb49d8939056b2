"""
Print the top module in SystemVerilog: an instance for each block, streams between them, an input
port, and an output port per result.

The sizes of a layer are parameters of the instance. A stream with several readers is forked. If the
rows of a result are not in order, a ring buffer restores the order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import (
    Block,
    Convolution,
    Feature,
    MaxPool,
    Pipeline,
)
from ceras_ir.backends.dataflow.parameters import (
    Memories,
    MemoryFile,
    ModuleParameters,
    block_parameters,
    column_bits,
    feature_parameters,
    port_columns,
)
from ceras_ir.backends.dataflow.plan import PipelinePlan, max_batch_rows
from ceras_ir.backends.dataflow.storage import bits, ceiling
from ceras_ir.dialects.quant import BYTE_BITS

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
            f"  logic [{feature.bits * feature.columns - 1}:0] {name}_data;\n"
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
    handshakes: dict[tuple[Block, int] | int, str] = {}
    for block, name in names.items():
        writer.lines.append(f"  // {name}: {_described(block)}")
        writer.wires(name, block.feature)
        readers = [*pipeline.consumers(block), *pipeline.ports(block)]
        if len(readers) > 1:
            writer.lines.append(f"  logic [{len(readers) - 1}:0] {name}_offers, {name}_takes;\n")
            writer.instance(
                "stream_fork",
                f"{name}_fork",
                {"READERS": len(readers)},
                CLOCK
                | {"in_valid": f"{name}_valid", "in_ready": f"{name}_ready"}
                | {"out_valid": f"{name}_offers", "out_ready": f"{name}_takes"},
            )
        for n, reader in enumerate(readers):
            own = f"{name}_offers[{n}] {name}_takes[{n}]" if len(readers) > 1 else ""
            handshakes[reader] = own or f"{name}_valid {name}_ready"
    source = pipeline.source
    beats = ceiling(source.feature.columns, port_bytes)
    port: ModuleParameters = {"PORT_BYTES": port_bytes, "BEATS": beats}
    writer.wires("received", source.feature)
    writer.instance(
        "stream_input",
        "port_in",
        feature_parameters(source.feature) | port | port_columns(source.feature),
        CLOCK
        | {"port_valid": "s_axis_tvalid", "port_ready": "s_axis_tready"}
        | {"port_data": "s_axis_tdata", "port_last": "s_axis_tlast", "errors": "input_errors"}
        | _output_ports("received"),
    )
    writer.instance(
        "skid_buffer",
        "port_skid",
        {"COLUMNS": source.feature.columns} | column_bits(source.feature),
        CLOCK
        | _input_ports("received", "received_valid received_ready")
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
            if n or not isinstance(block, Convolution | MaxPool):
                ports[f"{prefix}_data"] = _widened(
                    writer, operand.feature, wire, f"{name}_{prefix}"
                )
        module, parameters = block_parameters(block, plan, name, writer.memories)
        if module == "convolution" and len(block.inputs) == 1:
            unused = {"valid": "1'b0", "ready": "", "data": "'0", "row": "'0", "channel": "'0"}
            ports |= {f"second_{part}": value for part, value in unused.items()}
        outputs = _output_ports(name)
        if not isinstance(block, Convolution | MaxPool):
            outputs["out_data"] = _narrowed(writer, block.feature, name)
        writer.instance(module, f"{name}_block", parameters, ports | outputs)
    for n, result in enumerate(pipeline.results):
        _output(writer, n, names[result], handshakes[n])
    return Project(_module(writer), writer.memories.files)


def _queue(
    writer: _ModuleWriter, block: Block, wire: str, handshake: str, name: str
) -> tuple[str, str]:
    # Return the wires and the handshake of the queue before the first operand.
    feature, words, queued = block.input, writer.plan.delays[block], f"{name}_queued"
    writer.wires(queued, feature)
    sizes: ModuleParameters = {
        "COLUMNS": feature.columns,
        **column_bits(feature),
        "ROW_BITS": bits(feature.rows),
        "CHANNEL_BITS": bits(feature.channels),
        "DEPTH": words,
        "ADDRESS_BITS": bits(words),
    }
    ports = CLOCK | _input_ports(wire, handshake) | _output_ports(queued)
    writer.instance("stream_fifo", f"{name}_queue", sizes, ports)
    return queued, f"{queued}_valid {queued}_ready"


def _widened(writer: _ModuleWriter, feature: Feature, wire: str, name: str) -> str:
    # Return the data of a stream with columns of 8 bits, for blocks that have no other columns.
    bits = feature.bits
    column = f"{name}_bytes[8*x+:8] = 8'($signed({wire}_data[{bits}*x+:{bits}]));"
    return _bytes(writer, feature, name, column) or f"{wire}_data"


def _narrowed(writer: _ModuleWriter, feature: Feature, name: str) -> str:
    # Return the data with columns of 8 bits that a block sends to the stream `name`.
    bits = feature.bits
    column = f"{name}_data[{bits}*x+:{bits}] = {name}_bytes[8*x+:{bits}];"
    return _bytes(writer, feature, name, column) or f"{name}_data"


def _bytes(writer: _ModuleWriter, feature: Feature, name: str, column: str) -> str | None:
    # Declare data with columns of 8 bits, and the assignment of column `x`. Return the name, or
    # None if the stream has such columns.
    if feature.bits == BYTE_BITS:
        return None
    writer.lines.append(
        f"  logic [{BYTE_BITS * feature.columns - 1}:0] {name}_bytes;\n\n"
        f"  always_comb\n    for (int x = 0; x < {feature.columns}; x++)\n"
        f"    {column}\n"
    )
    return f"{name}_bytes"


def _described(block: Block) -> str:
    f = block.feature
    return f"{block.name}: {f.rows} rows, {f.channels} channels, {f.columns} columns"


def in_order(result: Block, plan: PipelinePlan) -> bool:
    """
    Return whether a block sends its rows in order. This is so if each batch, the rows that are sent
    together, has a single row.
    """
    return max_batch_rows(result, plan.convolutions) == 1


def output_ports(count: int) -> list[str]:
    """Return the names of `count` output ports: `m_axis`, `m_axis_1`, `m_axis_2`, ..."""
    return ["m_axis", *(f"m_axis_{n}" for n in range(1, count))]


def _output(writer: _ModuleWriter, port: int, wire: str, handshake: str) -> None:
    result, suffix = writer.pipeline.results[port], f"_{port}" if port else ""
    feature, inputs = result.feature, _input_ports(wire, handshake)
    if not in_order(result, writer.plan):
        capacity, ordered = order_capacity(result, writer.plan), f"ordered{suffix}"
        writer.wires(ordered, feature)
        ring: ModuleParameters = {
            "CAPACITY": capacity,
            "ADDRESS_BITS": bits(capacity * feature.channels),
        }
        writer.instance(
            "row_order",
            f"order{suffix}",
            feature_parameters(feature) | column_bits(feature) | ring,
            CLOCK | inputs | _output_ports(ordered),
        )
        inputs = _input_ports(ordered, f"{ordered}_valid {ordered}_ready")
    beats = ceiling(feature.columns, writer.port_bytes)
    name = output_ports(port + 1)[port]
    writer.instance(
        "stream_output",
        f"port_out{suffix}",
        feature_parameters(feature)
        | port_columns(feature)
        | {"PORT_BYTES": writer.port_bytes, "BEATS": beats},
        CLOCK
        | inputs
        | {"port_valid": f"{name}_tvalid", "port_ready": f"{name}_tready"}
        | {"port_data": f"{name}_tdata", "port_last": f"{name}_tlast"},
    )


def order_capacity(result: Block, plan: PipelinePlan) -> int:
    """
    Return the number of rows in the buffer that restores the order of the rows at an output: two
    batches, rounded up to a power of two.
    """
    return 1 << (2 * max_batch_rows(result, plan.convolutions) - 1).bit_length()


def _module(writer: _ModuleWriter) -> str:
    width, source = 8 * writer.port_bytes - 1, writer.pipeline.source.feature
    body, results = "\n".join(writer.lines), writer.pipeline.results
    names = output_ports(len(results))
    formats = [
        f"// Frame of {name}: {f.rows} rows of {f.channels} channels of {f.columns} bytes, in the "
        "same format.\n"
        for name, f in zip(names, (result.feature for result in results), strict=True)
    ]
    ports = [
        f"    output logic {name}_tvalid,\n    input logic {name}_tready,\n"
        f"    output logic [{width}:0] {name}_tdata,\n    output logic {name}_tlast,\n"
        for name in names
    ]
    return (
        "// Generated; the blocks are in the other files of this folder.\n"
        f"// Input frame: {source.rows} rows of {source.channels} channels of {source.columns} "
        "bytes. Each channel starts with a new beat.\n"
        f"{''.join(formats)}"
        "// A packet is a frame. Bit 0 of input_errors: a packet was too short, bit 1: too long.\n"
        f"module {TOP_MODULE} (\n"
        "    input logic clk,\n    input logic rst,\n"
        "    input logic s_axis_tvalid,\n    output logic s_axis_tready,\n"
        f"    input logic [{width}:0] s_axis_tdata,\n    input logic s_axis_tlast,\n"
        f"{''.join(ports)}"
        "    output logic [1:0] input_errors\n"
        f");\n{body}endmodule\n"
    )
