"""
Create the files of a circuit and figures for the report, and simulate the circuit with Verilator.

The files are the library, the top module and the memory contents. The folder `hdl/` of the output
is a project for any synthesizer. `$readmemh` finds the memories next to the sources. The C code
next to the folder is the program of the host, which passes frames to the circuit.

In a simulation, a frame on a port is a list of rows; each row has channels, and each channel has
columns, padded to full beats. `open_circuit` executes the C code of the host, which launches the
simulated circuit.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.backends.c.runner import CompiledC
from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.board import DataflowBoard
from ceras_ir.backends.dataflow.circuit import Circuit, circuit_of
from ceras_ir.backends.dataflow.convolution_cycles import lane_cycles
from ceras_ir.backends.dataflow.cycles import PipelineTiming, model
from ceras_ir.backends.dataflow.frames import HEADER, MODULE, PortFrames, header
from ceras_ir.backends.dataflow.frames import module as python_module
from ceras_ir.backends.dataflow.project_scripts import COMPONENT_FILE, component, script_files
from ceras_ir.backends.dataflow.resources import (
    NETLIST_FILE,
    Resources,
    estimate,
    route,
    synthesize,
    total,
)  # fmt: skip
from ceras_ir.backends.dataflow.rules import DATAFLOW
from ceras_ir.backends.dataflow.shell import shell_artefacts
from ceras_ir.backends.dataflow.storage import ceiling
from ceras_ir.backends.dataflow.verilog import TOP_MODULE, output_ports, write_project
from ceras_ir.command.output_files import MANIFEST, is_inside
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import LaunchOp, block_of
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.report import entries_of
from ceras_ir.support import native
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import SKID_BUFFER, STREAM_FIFO, Part, include_folder, verilate
from ceras_ir.support.programs import run_program
from ceras_ir.targets import MICROSECONDS, Prediction
from ceras_ir.targets.capabilities import Manifest

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
    """
    The modelled times and resources of a circuit, for reports. `counted` and `routed_mhz` are
    results of synthesis and routing, if the user requested them.
    """

    timing: PipelineTiming
    total: Resources
    busy: float
    """The share of the cycles of all multipliers in which a nonzero weight is multiplied."""
    layers: dict[Operation, dict[str, object]]
    """The entries of the report by operation; a convolution and its table may share a name."""
    assumed_mhz: float
    """The clock of the board file."""
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
        own = {block: op for op, block in circuit.pipeline.operations.items()}
        before = Resources()
        for block in circuit.pipeline.blocks:
            # Several blocks can compute an operation; the last has its result.
            part = before = before + parts[block]
            if (op := own.get(block)) is None:
                continue
            before = Resources()
            entry: dict[str, object] = {"multipliers": part.dsp, "memories": part.ram18}
            entry["tables"] = part.lut
            if (planned := circuit.plan.convolutions.get(block)) is not None:
                entry["cycles"] = lane_cycles(planned)
                lanes = planned.lanes
                share = "" if lanes.parts == 1 else f", {lanes.parts} parts"
                share += "" if lanes.terms == 1 else f", {lanes.terms} channels"
                share += ", products in LUTs" if lanes.in_tables else ""
                entry["lanes"] = f"{lanes.rows} x {lanes.filters} {lanes.encoding.value}{share}"
                entry["products"] = planned.products
            layers[op] = entry
        timing = model(circuit.pipeline, circuit.plan, board.port_bytes)
        busy = circuit.plan.busy_share(timing.per_frame)
        clock = board.clock_mhz
        return cls(timing, total(parts), busy, layers, clock, counted, routed_mhz)

    @property
    def clock_mhz(self) -> float:
        """The clock of all times: the clock that nextpnr reached, or an assumption of the board."""
        return self.assumed_mhz if self.routed_mhz is None else self.routed_mhz

    @property
    def clock_source(self) -> str:
        return "assumed" if self.routed_mhz is None else "routed"

    def totals(self) -> dict[str, object]:
        """
        Return the times and resources of the entire circuit, by the keys of `totals` in the report.
        """
        return {
            "cycles_per_frame": self.timing.per_frame,
            "latency_cycles": self.timing.latency,
            "frames_per_second": round(self.clock_mhz * 1e6 / self.timing.per_frame, 1),
            "clock": self.clock_source,
            "busy_multipliers": round(self.busy, 4),
            "estimated": self.total.to_json(),
            **({} if self.counted is None else {"yosys": self.counted.to_json()}),
            **({} if self.routed_mhz is None else {"routed_mhz": round(self.routed_mhz, 1)}),
        }

    def rate(self) -> str:
        """Return the inferences per second, as text for the summary."""
        each = self.timing.per_frame
        return (
            f"{self.clock_mhz * 1e6 / each:,.1f} inferences per second, {each:,} cycles each; the "
            f"clock of {self.clock_mhz:.4g} MHz is {self.clock_source}"
        )

    def annotate(self, layers: list[dict[str, object]]) -> None:
        """
        Add the resources and cycles of the block of each layer to the entry of the layer in the
        report. `layers` has the entries of all devices; only those of the circuit change.
        """
        own = [layer for layer in layers if layer["device"] == DATAFLOW]
        for layer, figures in zip(entries_of(own, self.layers), self.layers.values(), strict=True):
            if layer is None:
                continue
            layer |= figures
            if isinstance(cycles := layer.get("cycles"), int):
                layer[MICROSECONDS] = round(cycles / self.clock_mhz, 3)

    def prediction(self, board: DataflowBoard) -> Prediction:
        """Return the modelled time of an inference, with a text that describes the assumptions."""
        return Prediction(
            f"{board.title} at {self.clock_mhz:.4g} MHz ({self.clock_source})",
            "Cycles of each block at full speed. All blocks work in parallel: the time of an "
            "inference is the latency of the pipeline; the next inference starts earlier. The host "
            "is not included.",
            microseconds=self.timing.latency / self.clock_mhz,
        )


def library_files() -> dict[str, str]:
    """Return the text of the SystemVerilog modules that all circuits use, by file name."""
    library = files("ceras_ir.backends.dataflow") / "hdl"
    found = [SKID_BUFFER, STREAM_FIFO, *(e for e in library.iterdir() if e.name.endswith(".sv"))]
    return {e.name: e.read_text(encoding="utf-8") for e in sorted(found, key=lambda e: e.name)}


def project_files(circuit: Circuit, board: DataflowBoard) -> dict[str, str]:
    """
    Return the text of each file of a hardware project by name: library, top module, memory
    contents, constraints, scripts and IP-XACT.
    """
    project = write_project(circuit.pipeline, circuit.plan, board.port_bytes)
    found = library_files() | {f"{TOP_MODULE}.sv": project.top}
    found |= {name: file.text() for name, file in project.memories.items()}
    return found | script_files(board) | {COMPONENT_FILE: component(project.top, found)}


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
        return counted, route(Path(work, NETLIST_FILE), board.nextpnr, board.clock_mhz)


def emit_circuit(
    module: ModuleOp, board: DataflowBoard, *, synthesized: bool = False, routed: bool = False
) -> tuple[list[Artefact], dict[str, object], CircuitFigures]:
    """
    Return the files of the hardware project, the entry of `manifest.json` that `open_circuit`
    needs, and the modelled times and resources. With `synthesized`, yosys counts the resources;
    with `routed`, nextpnr also measures the clock.
    """
    circuit = circuit_of(module, board)
    (launch,) = [op for op in main_function(module).body.block.ops if isinstance(op, LaunchOp)]
    described = {".sv": "SystemVerilog", ".mem": "contents of a memory, for $readmemh"} | {
        ".xdc": "constraints for Vivado",
        ".sdc": "constraints for Quartus",
        ".lpf": "constraints for Diamond and nextpnr",
        ".tcl": "a script that implements the circuit and checks the clock",
        ".xml": "IP-XACT",
    }
    project = project_files(circuit, board)
    artefacts = [
        Artefact.of_text(f"{PROJECT_FOLDER}/{name}", described[name[name.rindex(".") :]], text)
        for name, text in project.items()
    ]
    pipeline, count = circuit.pipeline, graph.shape_of(launch.inputs[0])[0]
    values = zip(
        (*launch.inputs, *launch.outputs), (pipeline.source, *pipeline.results), strict=True
    )
    source, *results = (
        PortFrames(_offset(value), end.feature, count, board.port_bytes, pipeline.is_turned)
        for value, end in values
    )
    artefacts += [
        Artefact.of_text(HEADER, "frames as streams, in C", header(source, results)),
        Artefact.of_text(MODULE, "frames as streams, in Python", python_module(source, results)),
    ]
    entry: dict[str, object] = {
        "folder": PROJECT_FOLDER,
        "port_bytes": board.port_bytes,
        "frames": count,
        "input": _port(source),
        "outputs": [_port(result) for result in results],
        "turned": pipeline.is_turned,
    }
    counted = _count(circuit, board, synthesized=synthesized, routed=routed)
    figures = CircuitFigures.of(circuit, board, *counted)
    cycles = figures.timing.latency + (count - 1) * figures.timing.per_frame
    files_of_board, entries = shell_artefacts(
        main_function(module), board, project, source, results, cycles / figures.clock_mhz / 1000
    )
    entry |= entries
    return [*artefacts, *files_of_board], {MANIFEST_ENTRY: entry}, figures


def _offset(value: SSAValue) -> int:
    block = block_of(value)
    if block is None:
        raise InputError("a port has no memory: run allocate-blocks with io=true first")
    return block.offset.data


def _port(port: PortFrames) -> Sequence[int]:
    f = port.feature
    return [port.offset, f.rows, f.columns, f.channels]


Frames = NDArray[np.int8]
"""[frames, rows, columns, channels], as in the network."""

SIMULATOR_FLAGS = ("-std=c++17", "-O1", "-pthread")
"""Higher optimization levels need more time than they save."""


@dataclass(frozen=True)
class SimulatedRun:
    """
    The result of a simulation: the frames at each output port, and for each frame the number of the
    cycle in which the last port has written its last word.
    """

    results: list[Frames]
    end_cycles: list[int]
    errors: str = ""
    """The packets that the circuit reports as no frame, as a sentence."""

    @property
    def cycles_per_frame(self) -> int:
        """
        The cycles between the last two frames, or the cycles of the only frame. If the simulation
        had enough frames, these are the cycles per frame of a long sequence.
        """
        return (
            self.end_cycles[-1] - self.end_cycles[-2]
            if len(self.end_cycles) > 1
            else self.end_cycles[-1]
        )


def to_port(frames: Frames, port_bytes: int) -> bytes:
    """
    Return the bytes of `frames` in the order of a port: row, channel, column. Each row of a channel
    is padded with zeros to a multiple of `port_bytes`, the bytes per cycle.
    """
    ordered = frames.transpose(0, 1, 3, 2)
    padding = [(0, 0)] * 3 + [(0, -ordered.shape[-1] % port_bytes)]
    return np.pad(ordered, padding).tobytes()


def from_port(data: bytes, feature: Feature, port_bytes: int) -> Frames:
    """
    Return the frames in `data`, the bytes that a port transferred in the layout of `to_port`. Each
    frame has the shape `feature`; the padding is removed.
    """
    width = ceiling(feature.columns, port_bytes) * port_bytes
    words = np.frombuffer(data, np.int8).reshape(-1, feature.rows, feature.channels, width)
    return np.ascontiguousarray(words[..., : feature.columns].transpose(0, 1, 3, 2))


class CircuitSimulator:
    """
    The circuit of the hardware project in `folder`, compiled by Verilator to a program. `source`
    and `results` are the shapes of a frame at the input and at each output port.
    """

    def __init__(self, folder: Path, source: Feature, results: Sequence[Feature], port_bytes: int):
        self.folder, self.source, self.results = folder, source, results
        self.port_bytes = port_bytes
        self._work = tempfile.TemporaryDirectory(prefix="ceras-dataflow-")
        self.program = _build(folder, Path(self._work.name), port_bytes, len(results))

    def run(
        self,
        frames: Frames,
        *,
        seed: int = 0,
        stall: int = 0,
        reset: int = 0,
        packets: Sequence[int] = (),
    ) -> SimulatedRun:
        """
        Simulate the circuit for all `frames`. In `stall` percent of the cycles, selected at random
        with `seed`, a port does not transfer; this tests the flow control.

        If `reset` is not 0, there is a reset after so many cycles, and all frames are sent again.
        `packets` are the beats of the input packet of each frame; a packet that is longer than the
        frame repeats the frame.
        """
        work, size = Path(self._work.name), self.port_bytes
        beats = [f.words * ceiling(f.columns, size) for f in (self.source, *self.results)]
        lengths = packets or [beats[0]] * len(frames)
        sent = [to_port(frame[np.newaxis], size) for frame in frames]
        repeated = [
            (data * ceiling(length, beats[0]))[: length * size]
            for data, length in zip(sent, lengths, strict=True)
        ]
        (work / "in.bin").write_bytes(b"".join(repeated))
        numbers = [len(frames), seed, stall, reset, *beats, *packets]
        # Memories are read from the folder of the project.
        command = [str(self.program), str(work / "in.bin"), str(work / "out.bin")]
        printed, errors = _execute(
            [*command, *map(str, numbers)], self.folder, is_cut=bool(packets)
        )
        found, results = (work / "out.bin").read_bytes(), list[Frames]()
        for feature, count in zip(self.results, beats[1:], strict=True):
            length = len(frames) * count * size
            results.append(from_port(found[:length], feature, size))
            found = found[length:]
        return SimulatedRun(results, list(map(int, printed.split())), errors.strip())


def _build(folder: Path, work: Path, port_bytes: int, outputs: int) -> Path:
    objects = work / "obj"
    objects.mkdir()
    parts = verilate(TOP_MODULE, sorted(folder.resolve().glob("*.sv")), objects, SIMULATOR_FLAGS)
    with as_file(files("ceras_ir.backends.dataflow") / "hdl" / "simulate.cpp") as harness:
        ports = "-DOUTPUT_PORTS=" + " ".join(f"PORT({name})" for name in output_ports(outputs))
        sizes = [f"-DPORT_BYTES={port_bytes}", ports]
        flags = [*SIMULATOR_FLAGS, f"-I{include_folder()}", *sizes]
        own = Part([harness], (), flags, is_shared=False)
        native.build(objects / "simulate", "the simulation of the circuits", [own, *parts])
    return objects / "simulate"


CUT_STATUS = 4
"""The exit status of `simulate.cpp` if an input packet is no frame."""


def _execute(command: Sequence[str], folder: Path, *, is_cut: bool) -> tuple[str, str]:
    """Run the simulator, and return what it printed on stdout and on stderr."""
    done = run_program(command, folder)
    if done.returncode and not (is_cut and done.returncode == CUT_STATUS):
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        shown = "\n".join(lines[:12])
        raise InputError(
            f"the simulation failed with exit status {done.returncode}:\n{shown}", str(folder)
        )
    return done.stdout, done.stderr


class CircuitRunner:
    """
    Simulates the circuit of a compiled folder when the program of the host launches it. The first
    launch compiles the simulator. `seed` and `stall` are those of `CircuitSimulator.run`.
    """

    def __init__(self, folder: Path, manifest: Manifest, seed: int, stall: int):
        path, entry = str(folder / MANIFEST), manifest.content.get(MANIFEST_ENTRY)
        if not isa(entry, dict[str, object]):
            raise InputError(f"there is no entry '{MANIFEST_ENTRY}'; compile again", path)
        name, outputs = entry.get("folder"), entry.get("outputs")
        ports = [entry.get("input"), *(outputs if isa(outputs, list[object]) else [None])]
        port_bytes, frames = entry.get("port_bytes"), entry.get("frames")
        if not isinstance(name, str) or not is_inside(folder, name):
            raise InputError(f"'folder' must be inside the compiled folder, got {name!r}", path)
        if not isa(ports, list[list[int]]) or any(len(p) != 4 or min(p) < 0 for p in ports):
            raise InputError("'input' and each of 'outputs' must be four numbers", path)
        if not isinstance(port_bytes, int) or not isinstance(frames, int):
            raise InputError("'port_bytes' and 'frames' must be numbers", path)
        if not 1 <= port_bytes <= 64 or frames < 1:
            raise InputError("'port_bytes' must be in [1, 64], and 'frames' >= 1", path)
        self.folder, self.port_bytes, self.frames = folder / name, port_bytes, frames
        self.source, *self.results = (_feature(port) for port in ports)
        self.offsets = [port[0] for port in ports]
        self.is_turned = entry.get("turned") is True
        self.seed, self.stall = seed, stall
        self._simulator: CircuitSimulator | None = None

    def launch(self, number: int, memory: NDArray[np.uint8]) -> None:
        """
        Simulate an inference: read its frames from the shared `memory` of host and circuit, and
        write the results to it. `number` must be 0, because a network has a single circuit.
        """
        if number:
            message = f"no launch {number}: a circuit is a single pipeline"
            raise InputError(message, str(self.folder))
        source, results, size = self.source, self.results, self.port_bytes
        sizes = [self.frames * feature.size for feature in (source, *results)]
        ends = [offset + count for offset, count in zip(self.offsets, sizes, strict=True)]
        if max(ends) > len(memory):
            raise InputError("a port is outside the memory of the host", str(self.folder))
        if self._simulator is None:
            self._simulator = CircuitSimulator(self.folder, source, results, size)
        stored = source.turned if self.is_turned else source
        frames = memory[self.offsets[0] : ends[0]].view(np.int8)
        frames = frames.reshape(self.frames, stored.rows, stored.columns, stored.channels)
        run = self._simulator.run(self._turn(frames), seed=self.seed, stall=self.stall)
        for offset, end, found in zip(self.offsets[1:], ends[1:], run.results, strict=True):
            memory[offset:end] = self._turn(found).reshape(-1).view(np.uint8)

    def _turn(self, frames: Frames) -> Frames:
        # Between the shape in memory and the shape at a port.
        return frames.swapaxes(1, 2) if self.is_turned else frames


def _feature(port: list[int]) -> Feature:
    _, rows, columns, channels = port
    if min(rows, columns, channels) < 1:
        raise InputError("a port has >= 1 row, column and channel")
    return Feature(rows, channels, columns)


def open_circuit(folder: Path, manifest: Manifest, seed: int, stall: int) -> CompiledC:
    """
    Return the C code of the host, compiled for this machine. When it launches the circuit, a
    simulation runs, whose ports stall at random (`seed`) in `stall` percent of the cycles.
    """
    runner = CircuitRunner(folder, manifest, seed, stall)
    return CompiledC(folder, manifest.inputs, manifest.outputs, runner.launch)
