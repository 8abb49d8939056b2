"""
Create the files of a circuit: library, top module and memory contents; and figures for the report.

The folder `hdl/` of the output is a project for any synthesizer. `$readmemh` finds the memories
next to the sources. The C code next to the folder is the program of the host, which passes frames
to the circuit.
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
)  # fmt: skip
from ceras_ir.backends.dataflow.rules import DATAFLOW
from ceras_ir.backends.dataflow.verilog import write_project
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import LaunchOp, block_of
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.report import entries_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import STREAM_FIFO
from ceras_ir.targets import MICROSECONDS, Prediction

PROJECT_FOLDER = "hdl"
MANIFEST_ENTRY = "dataflow"
REPORT_COLUMNS = {
    "cycles": ("cycles", "{:,}"),
    "multipliers": ("DSP", "{:,}"),
    "memories": ("RAM18", "{:,}"),
    "lanes": ("rows x filters", "{}"),
}
"""The columns of a layer in the report: key, title and format."""


@dataclass(frozen=True, eq=False)
class CircuitFigures:
    """The modelled times and resources of a circuit."""

    timing: PipelineTiming
    total: Resources
    busy: float
    """The share of the cycles of all lanes in which the weight is not zero."""
    layers: dict[Operation, dict[str, object]]
    """The entries of the report by operation; a convolution and its table may share a name."""
    counted: Resources | None = None
    """The resources that yosys counted, with --synthesize or --route."""
    routed_mhz: float | None = None
    """The clock that nextpnr reached, with --route."""

    @classmethod
    def of(
        cls,
        circuit: Circuit,
        board: DataflowBoard,
        counted: Resources | None,
        routed_mhz: float | None,
    ) -> "CircuitFigures":
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
        """Return the entries for the totals of the report."""
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
        """Add the resources and cycles of the block to the entry of each layer."""
        own = [layer for layer in layers if layer["device"] == DATAFLOW]
        for layer, figures in zip(entries_of(own, self.layers), self.layers.values(), strict=True):
            if layer is None:
                continue
            layer |= figures
            if isinstance(cycles := layer.get("cycles"), int):
                layer[MICROSECONDS] = round(cycles / board.clock_mhz, 3)

    def prediction(self, board: DataflowBoard) -> Prediction:
        """Return the modelled time of a frame."""
        return Prediction(
            f"{board.title} at {board.clock_mhz} MHz",
            "Cycles of each block at full speed. All blocks work in parallel: the time of an "
            "inference is the latency of the pipeline; the next inference starts earlier. The host "
            "is not included.",
            microseconds=self.timing.latency / board.clock_mhz,
        )


def library_files() -> dict[str, str]:
    """Return the library of modules by file name."""
    library = files("ceras_ir.backends.dataflow") / "hdl"
    found = [STREAM_FIFO, *(e for e in library.iterdir() if e.name.endswith(".sv"))]
    return {e.name: e.read_text(encoding="utf-8") for e in sorted(found, key=lambda e: e.name)}


def project_files(circuit: Circuit, board: DataflowBoard) -> dict[str, str]:
    """Return the project by file name: library, top module and memories."""
    project = write_project(circuit.pipeline, circuit.plan, board.port_bytes)
    found = library_files() | {"pipeline.sv": project.top}
    return found | {name: file.text() for name, file in project.memories.items()}


def _count(
    circuit: Circuit, board: DataflowBoard, *, synthesized: bool, routed: bool
) -> tuple[Resources | None, float | None]:
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
) -> tuple[list[Artefact], dict[str, object], CircuitFigures]:
    """Return the project, the entry of `manifest.json`, and figures for the report."""
    circuit = circuit_of(module, board)
    (launch,) = [op for op in main_function(module).body.block.ops if isinstance(op, LaunchOp)]
    described = {".sv": "SystemVerilog", ".mem": "contents of a memory, for $readmemh"}
    artefacts = [
        Artefact.of_text(f"{PROJECT_FOLDER}/{name}", described[name[name.rindex(".") :]], text)
        for name, text in project_files(circuit, board).items()
    ]
    source, result = circuit.pipeline.source.feature, circuit.pipeline.result.feature
    entry: dict[str, object] = {
        "folder": PROJECT_FOLDER,
        "port_bytes": board.port_bytes,
        "frames": graph.shape_of(launch.inputs[0])[0],
        "input": _port(launch, 0, source),
        "output": _port(launch, 1, result),
    }
    counted = _count(circuit, board, synthesized=synthesized, routed=routed)
    return artefacts, {MANIFEST_ENTRY: entry}, CircuitFigures.of(circuit, board, *counted)


def _port(launch: LaunchOp, number: int, feature: Feature) -> Sequence[int]:
    # Offset in the arena, rows, columns and channels.
    value = (*launch.inputs, *launch.outputs)[number]
    block = block_of(value)
    if block is None:
        raise InputError("a port has no memory: run allocate-blocks with io=true first")
    return [block.offset.data, feature.rows, feature.columns, feature.channels]
