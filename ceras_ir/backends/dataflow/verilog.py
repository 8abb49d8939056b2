"""
The top module: one instance for every block, streams between them, and two ports.

`parameters.py` has what each instance is given. Streams with several readers are forked; an
output whose rows come several at a time is put into order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ceras_ir.backends.dataflow.blocks import Block, Feature
from ceras_ir.backends.dataflow.extraction import Pipeline
from ceras_ir.backends.dataflow.order import largest
from ceras_ir.backends.dataflow.parameters import (
    Memories,
    MemoryFile,
    Parameters,
    block_parameters,
    feature_parameters,
)
from ceras_ir.backends.dataflow.plan import Plan
from ceras_ir.backends.dataflow.window import bits, ceiling

TOP = "pipeline"
"""The module that a user instantiates."""


@dataclass
class Project:
    """The generated files, by name."""

    top: str
    memories: Mapping[str, MemoryFile]


@dataclass
class _Writer:
    """Collects instances and wires."""

    pipeline: Pipeline
    plan: Plan
    port_bytes: int
    lines: list[str] = field(default_factory=list[str])
    memories: Memories = field(default_factory=Memories)

    def instance(
        self, module: str, name: str, parameters: Parameters, ports: Mapping[str, str]
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


def _reads(wire: str, handshake: str, prefix: str = "in") -> dict[str, str]:
    """Ports of a block that reads a stream; `handshake` is the reader's own of a fork."""
    valid, ready = handshake.split()
    return {
        f"{prefix}_valid": valid,
        f"{prefix}_ready": ready,
        f"{prefix}_data": f"{wire}_data",
        f"{prefix}_row": f"{wire}_row",
        f"{prefix}_channel": f"{wire}_channel",
    }


def _writes(wire: str) -> dict[str, str]:
    return {
        f"out_{part}": f"{wire}_{part}" for part in ("valid", "ready", "data", "row", "channel")
    }


def write_project(pipeline: Pipeline, plan: Plan, port_bytes: int) -> Project:
    """The top module and its memories."""
    writer = _Writer(pipeline, plan, port_bytes)
    names = {block: f"b{n}" for n, block in enumerate((pipeline.source, *pipeline.blocks))}
    handshakes: dict[tuple[Block, int], str] = {}
    for block, name in names.items():
        writer.lines.append(f"  // {name}: {_described(block)}")
        writer.wires(name, block.feature)
        readers = pipeline.readers(block)
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
    port: Parameters = {"PORT_BYTES": port_bytes, "BEATS": beats}
    writer.instance(
        "stream_input",
        "port_in",
        feature_parameters(source.feature) | port,
        CLOCK
        | {"port_valid": "s_axis_tvalid", "port_ready": "s_axis_tready"}
        | {"port_data": "s_axis_tdata"}
        | _writes(names[source]),
    )
    for block in pipeline.blocks:
        name = names[block]
        ports = dict(CLOCK)
        for n, operand in enumerate(block.inputs):
            prefix, wire, handshake = "second" if n else "in", names[operand], handshakes[block, n]
            if not n and block in plan.delays:
                wire, handshake = _queue(writer, block, wire, handshake, name)
            ports |= _reads(wire, handshake, prefix)
        module, parameters = block_parameters(block, plan, name, writer.memories)
        if module == "convolution" and len(block.inputs) == 1:
            unused = {"valid": "1'b0", "ready": "", "data": "'0", "row": "'0", "channel": "'0"}
            ports |= {f"second_{part}": value for part, value in unused.items()}
        writer.instance(module, f"{name}_block", parameters, ports | _writes(name))
    _output(writer, names[pipeline.result])
    return Project(_module(writer, source.feature, pipeline.result.feature), writer.memories.files)


def _queue(writer: _Writer, block: Block, wire: str, handshake: str, name: str) -> tuple[str, str]:
    """The queue in front of the first operand of `block`: its wires, and their handshake."""
    feature, words, queued = block.input, writer.plan.delays[block], f"{name}_queued"
    writer.wires(queued, feature)
    sizes: Parameters = {
        "COLUMNS": feature.columns,
        "ROW_BITS": bits(feature.rows),
        "CHANNEL_BITS": bits(feature.channels),
        "DEPTH": words,
        "ADDRESS_BITS": bits(words),
    }
    ports = CLOCK | _reads(wire, handshake) | _writes(queued)
    writer.instance("stream_fifo", f"{name}_queue", sizes, ports)
    return queued, f"{queued}_valid {queued}_ready"


def _described(block: Block) -> str:
    f = block.feature
    return f"{block.name}: {f.rows} rows, {f.channels} channels, {f.columns} columns"


def in_order(pipeline: Pipeline, plan: Plan) -> bool:
    """Whether the result's rows come one after the other."""
    return largest(pipeline.result, plan.convolutions) == 1


def _output(writer: _Writer, wire: str) -> None:
    feature = writer.pipeline.result.feature
    if not in_order(writer.pipeline, writer.plan):
        capacity = order_capacity(writer.pipeline, writer.plan)
        writer.wires("ordered", feature)
        ring: Parameters = {"CAPACITY": capacity, "ADDRESS_BITS": bits(capacity * feature.channels)}
        writer.instance(
            "row_order",
            "order",
            feature_parameters(feature) | ring,
            CLOCK | _reads(wire, f"{wire}_valid {wire}_ready") | _writes("ordered"),
        )
        wire = "ordered"
    beats = ceiling(feature.columns, writer.port_bytes)
    writer.instance(
        "stream_output",
        "port_out",
        feature_parameters(feature) | {"PORT_BYTES": writer.port_bytes, "BEATS": beats},
        CLOCK
        | _reads(wire, f"{wire}_valid {wire}_ready")
        | {"port_valid": "m_axis_tvalid", "port_ready": "m_axis_tready"}
        | {"port_data": "m_axis_tdata", "port_last": "m_axis_tlast"},
    )


def order_capacity(pipeline: Pipeline, plan: Plan) -> int:
    """Rows that the output keeps to put them into order: a batch, twice."""
    return 1 << (2 * largest(pipeline.result, plan.convolutions) - 1).bit_length()


def _module(writer: _Writer, source: Feature, result: Feature) -> str:
    width = 8 * writer.port_bytes - 1
    body = "\n".join(writer.lines)
    return (
        "// Generated; the blocks are in the other files of this folder.\n"
        f"// A frame in: {source.rows} rows of {source.channels} channels of {source.columns} "
        "bytes, each channel's from a beat of its own.\n"
        f"// A frame out: {result.rows} rows of {result.channels} channels of {result.columns} "
        "bytes, likewise.\n"
        f"module {TOP} (\n"
        "    input logic clk,\n    input logic rst,\n"
        "    input logic s_axis_tvalid,\n    output logic s_axis_tready,\n"
        f"    input logic [{width}:0] s_axis_tdata,\n"
        "    output logic m_axis_tvalid,\n    input logic m_axis_tready,\n"
        f"    output logic [{width}:0] m_axis_tdata,\n    output logic m_axis_tlast\n"
        f");\n{body}endmodule\n"
    )
