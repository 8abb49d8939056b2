"""
Files of a circuit: the library and the top module, memory contents, and what the report says.

`hdl/` is a project for any synthesizer: `$readmemh` finds the memories beside the sources. The C
beside it is the host's part, which hands frames to the circuit.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.board import DataflowBoard
from ceras_ir.backends.dataflow.cycles import PipelineTiming, lane_cycles, model
from ceras_ir.backends.dataflow.lanes import Circuit, circuit_of
from ceras_ir.backends.dataflow.resources import (
    NETLIST,
    Resources,
    estimate,
    route,
    synthesize,
    total,
)
from ceras_ir.backends.dataflow.verilog import write_project
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import LaunchOp, block_of
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.report import entries_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import STREAM_FIFO
from ceras_ir.targets import MICROSECONDS, Prediction

FOLDER = "hdl"
"""Where the project is in the output folder."""
ENTRY = "dataflow"
"""The entry of `manifest.json`."""
COLUMNS = {
    "cycles": ("cycles", "{:,}"),
    "multipliers": ("DSP", "{:,}"),
    "memories": ("RAM18", "{:,}"),
    "lanes": ("rows x filters", "{}"),
}
"""What the table of layers shows."""


@dataclass(frozen=True, eq=False)
class Figures:
    """What the models say of a circuit."""

    timing: PipelineTiming
    total: Resources
    busy: float
    """The share of the lanes' cycles that multiply by no zero."""
    layers: dict[Operation, dict[str, object]]
    """By operation: a convolution and its table may have the name of one node."""
    counted: Resources | None = None
    """What yosys counted, if it was asked."""
    routed_mhz: float | None = None
    """The clock that nextpnr reached, if it was asked."""

    @classmethod
    def of(
        cls,
        circuit: Circuit,
        board: DataflowBoard,
        counted: Resources | None,
        routed_mhz: float | None,
    ) -> "Figures":
        parts = estimate(circuit.pipeline, circuit.plan, board.fabric)
        layers: dict[Operation, dict[str, object]] = {}
        for op, block in circuit.pipeline.operations.items():
            part = parts[block]
            entry: dict[str, object] = {"multipliers": part.dsp, "memories": part.ram18}
            entry["tables"] = part.lut
            if (planned := circuit.plan.convolutions.get(block)) is not None:
                entry["cycles"] = lane_cycles(planned)
                lanes = planned.lanes
                share = "" if lanes.parts == 1 else f", {lanes.parts} parts"
                entry["lanes"] = f"{lanes.rows} x {lanes.filters} {lanes.encoding.value}{share}"
                entry["products"] = planned.lane_count
            layers[op] = entry
        timing = model(circuit.pipeline, circuit.plan, board.port_bytes)
        busy = circuit.plan.busy_share(timing.per_frame)
        return cls(timing, total(parts), busy, layers, counted, routed_mhz)

    def totals(self, board: DataflowBoard) -> dict[str, object]:
        """Entries of the report's totals."""
        return {
            "cycles_per_frame": self.timing.per_frame,
            "latency_cycles": self.timing.latency,
            "frames_per_second": round(board.clock_mhz * 1e6 / self.timing.per_frame, 1),
            "busy_multipliers": round(self.busy, 4),
            "estimated": self.total.to_json(),
            **({} if self.counted is None else {"yosys": self.counted.to_json()}),
            **({} if self.routed_mhz is None else {"routed_mhz": round(self.routed_mhz, 1)}),
        }

    def annotate(self, layers: list[dict[str, object]], board: DataflowBoard) -> None:
        """Add to the report's entry of each layer what its block takes."""
        here = [layer for layer in layers if layer["device"] == ENTRY]
        for layer, figures in zip(entries_of(here, self.layers), self.layers.values(), strict=True):
            if layer is None:
                continue
            layer |= figures
            if isinstance(cycles := layer.get("cycles"), int):
                layer[MICROSECONDS] = round(cycles / board.clock_mhz, 3)

    def prediction(self, board: DataflowBoard) -> Prediction:
        """One frame; the blocks work at once."""
        return Prediction(
            f"{board.title} at {board.clock_mhz} MHz",
            "Cycles of every block at full speed. All blocks work at once: one inference takes "
            "the latency of the pipeline, and the next one follows sooner. The host is not "
            "modelled.",
            microseconds=self.timing.latency / board.clock_mhz,
        )


def library_files() -> dict[str, str]:
    """The modules that every project consists of, by file name."""
    library = files("ceras_ir.backends.dataflow") / "hdl"
    found = [STREAM_FIFO, *(e for e in library.iterdir() if e.name.endswith(".sv"))]
    return {e.name: e.read_text(encoding="utf-8") for e in sorted(found, key=lambda e: e.name)}


def project_files(circuit: Circuit, board: DataflowBoard) -> dict[str, str]:
    """The project, by file name: the library, the top module, the memories."""
    project = write_project(circuit.pipeline, circuit.plan, board.port_bytes)
    found = library_files() | {"pipeline.sv": project.top}
    return found | {name: file.text() for name, file in project.memories.items()}


def _count(
    circuit: Circuit, board: DataflowBoard, *, synthesized: bool, routed: bool
) -> tuple[Resources | None, float | None]:
    """Resources as yosys counts them, and the clock that nextpnr reaches, as far as asked."""
    if not (synthesized or routed):
        return None, None
    with tempfile.TemporaryDirectory(prefix="ceras-dataflow-") as work:
        for name, text in project_files(circuit, board).items():
            Path(work, name).write_text(text, encoding="utf-8")
        counted = synthesize(Path(work), board.family)
        if not routed:
            return counted, None
        return counted, route(Path(work, NETLIST), board.nextpnr, board.clock_mhz)


def emit_circuit(
    module: ModuleOp, board: DataflowBoard, *, synthesized: bool = False, routed: bool = False
) -> tuple[list[Artefact], dict[str, object], Figures]:
    """The project, its entry of `manifest.json`, and figures for the report."""
    circuit = circuit_of(module, board)
    (launch,) = [op for op in main_function(module).body.block.ops if isinstance(op, LaunchOp)]
    described = {".sv": "SystemVerilog", ".mem": "contents of a memory, for $readmemh"}
    artefacts = [
        Artefact.of_text(f"{FOLDER}/{name}", described[name[name.rindex(".") :]], text)
        for name, text in project_files(circuit, board).items()
    ]
    source, result = circuit.pipeline.source.feature, circuit.pipeline.result.feature
    entry: dict[str, object] = {
        "folder": FOLDER,
        "port_bytes": board.port_bytes,
        "frames": graph.shape_of(launch.inputs[0])[0],
        "input": _port(launch, 0, source),
        "output": _port(launch, 1, result),
    }
    return (
        artefacts,
        {ENTRY: entry},
        Figures.of(circuit, board, *_count(circuit, board, synthesized=synthesized, routed=routed)),
    )


def _port(launch: LaunchOp, number: int, feature: Feature) -> Sequence[int]:
    """Offset in the arena, rows, columns and channels."""
    value = (*launch.inputs, *launch.outputs)[number]
    block = block_of(value)
    if block is None:
        raise InputError("a port has no place in memory: run allocate-blocks=io first")
    return [block.offset.data, feature.rows, feature.columns, feature.channels]
