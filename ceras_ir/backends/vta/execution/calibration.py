"""
Find the timing parameters of a VTA board from the measured times of small instruction streams.

Each stream repeats one kind of work thousands of times with little other work, so the time depends
on a single parameter. The fitted parameters minimize the difference between measured times and
simulated cycles plus a constant start time.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.execution.image import IMAGE_PAGE_BYTES
from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard, load_board, spelled
from ceras_ir.backends.vta.machine.encoding import VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, MemoryType, VtaBoardOptions
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.backends.vta.machine.time import Timing, simulate_time
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_files import MANIFEST, FolderOptions, open_output
from ceras_ir.command.output_folder import open_folder
from ceras_ir.command.tool_parser import ToolParser, add_options
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.options import inherited, options
from ceras_ir.support.user_files import read_text

LOOP_EXTENTS = (64, 128)
"""The iterations of the two hardware loops around a list of micro-ops."""
REPETITIONS = 200
"""The number of small instructions in a stream."""


@dataclass(frozen=True, eq=False)
class Probe:
    """
    A small instruction stream for measurements. Its time on a board depends mainly on the property
    that `purpose` describes.
    """

    name: str
    purpose: str
    program: VtaProgram
    size: int
    """The size of the DRAM image in bytes."""

    def dram(self, board: VtaBoard) -> bytes:
        """Return the DRAM image before execution: zeros, with the table of micro-ops in place."""
        image = np.zeros(self.size, np.uint8)
        table = np.frombuffer(self.program.micro_op_bytes(board), np.uint8)
        start = 4 * self.program.uop_base
        image[start : start + len(table)] = table
        return image.tobytes()


def probes(board: VtaBoard) -> list[Probe]:
    # Lists are not changed, regardless of the best length for the board.
    plain = replace(board, timing="chisel", hls=None)
    data = max(board.elements(m) * board.element_bytes(m) for m in MemoryType) * 2
    found: list[Probe] = []
    for name, (purpose, build) in PROBES.items():
        builder = StreamBuilder(plain)
        build(builder, plain)
        program = builder.finish(data // 4)
        end = data + len(program.micro_op_bytes(plain))
        size = -(-end // IMAGE_PAGE_BYTES) * IMAGE_PAGE_BYTES
        found.append(Probe(name, purpose, program, size))
    return found


def _empty(b: StreamBuilder, board: VtaBoard) -> None:
    pass


def _entries(length: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        uops = [[i] for i in range(length)]
        outer = max(1, LOOP_EXTENTS[0] // length)
        for _ in range(2):
            b.gemm(uops, iter=(outer, LOOP_EXTENTS[1]), reset=True)

    return build


def _alu(length: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        uops = [[i] for i in range(length)]
        count = (board.acc - length) // length
        b.gemm(uops, iter=(1, count), dst=(0, length), reset=True)
        for _ in range(8):
            steps = (0, length)
            b.alu(AluOpcode.MAX, uops, iter=(1, count), dst=steps, src=steps, imm=0)

    return build


def _small_loads(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(REPETITIONS):
        b.load(MemoryType.INP, 0, 0, 1)


def _rows(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(4):
        b.load(MemoryType.INP, 0, 0, 1, board.inp // 4, 2)


def _large_loads(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(2):
        b.load(MemoryType.WGT, 0, 0, board.wgt)


def _stores(rows: int) -> Callable[[StreamBuilder, VtaBoard], None]:
    def build(b: StreamBuilder, board: VtaBoard) -> None:
        count = board.acc // 4
        b.gemm([[0]], iter=(1, count), dst=(0, 1), reset=True)
        b.alu(AluOpcode.MAX, [[0]], iter=(1, count), dst=(0, 1), src=(0, 1), imm=0)
        for _ in range(4):
            if rows:
                b.store(0, 0, 1, count, 2)
            else:
                b.store(0, 0, count)

    return build


def _instructions(b: StreamBuilder, board: VtaBoard) -> None:
    for _ in range(4 * REPETITIONS):
        b.gemm([[0]], reset=True)


PROBES: dict[str, tuple[str, Callable[[StreamBuilder, VtaBoard], None]]] = {
    "start": ("the start of a stream, including the host", _empty),
    "instructions": ("an instruction with a single micro-op", _instructions),
    "entries_1": ("entries of a GEMM with a single micro-op", _entries(1)),
    "entries_8": ("entries of a GEMM with eight micro-ops", _entries(8)),
    "entries_64": ("entries of a GEMM with 64 micro-ops", _entries(64)),
    "alu_1": ("entries of an ALU operation with a single micro-op", _alu(1)),
    "alu_16": ("entries of an ALU operation with 16 micro-ops", _alu(16)),
    "loads": ("loads of a vector", _small_loads),
    "rows": ("rows of a single vector in a load", _rows),
    "weights": ("bytes of a long load", _large_loads),
    "stored_rows": ("rows of a single vector in a store", _stores(1)),
    "stored": ("bytes of a long store", _stores(0)),
}


Parameters = tuple[int, ...]

INITIAL_PARAMETERS: dict[str, tuple[dict[str, int], ...]] = {
    "hls": (
        {"refill": 8, "latency": 40, "bytes_per_cycle": 8, "instruction": 10},
        {"refill": 20, "latency": 100, "bytes_per_cycle": 16, "instruction": 30},
    ),
    "chisel": ({"read_latency": 50, "write_latency": 31, "bus_bytes": 8},),
}
"""
The starting points of the search for each kind of timing. The keys are fields of `HlsModel` and
`VtaBoard`.
"""
MIN_PARAMETERS = {"bytes_per_cycle": 1, "bus_bytes": 1}
STEP_FACTORS = (2.0, 1.5, 1.2, 1.1, 1.05, 1.02)
"""
The factors by which the search changes a parameter, in order. A factor is used until it gives no
improvement.
"""


@dataclass(frozen=True)
class Fitted:
    """
    A board with fitted timing parameters, the time of each probe that they predict, and the error.
    """

    board: VtaBoard
    start_us: float
    """The constant time to start a stream, in microseconds."""
    predicted: dict[str, float]
    """The predicted time of each probe in microseconds, by name."""
    error: float
    """The mean relative difference between predicted and measured times; 0.05 is 5%."""


def with_parameters(board: VtaBoard, numbers: Mapping[str, int]) -> VtaBoard:
    if board.is_hls:
        return replace(board, hls=HlsModel(**numbers))
    return replace(board, **numbers)


def fit_board(board: VtaBoard, probes: Sequence[Probe], times: Mapping[str, float]) -> Fitted:
    """
    Return `board` with the timing parameters with which the simulated times best fit `times`, the
    measured microseconds of `probes` by name. Probes without a time are ignored.
    """
    search = _Search(board, [p for p in probes if p.name in times], times)
    starts = INITIAL_PARAMETERS[board.timing]
    found = min((search.descend(start) for start in starts), key=search.loss)
    cycles, start = search.cycles(found), search.start(found)
    predicted = (cycles + start) / board.clock
    errors = np.abs(predicted / search.measured_us - 1)
    names = [probe.name for probe in search.probes]
    return Fitted(
        with_parameters(board, found),
        start / board.clock,
        dict(zip(names, predicted.tolist(), strict=True)),
        float(errors.mean()),
    )


class _Search:
    def __init__(self, board: VtaBoard, probes: Sequence[Probe], times: Mapping[str, float]):
        self.board, self.probes = board, probes
        self.measured_us = np.array([times[probe.name] for probe in probes])
        self.measured = self.measured_us * board.clock
        self._known: dict[tuple[tuple[str, int], ...], NDArray[np.float64]] = {}

    def cycles(self, numbers: Mapping[str, int]) -> NDArray[np.float64]:
        key = tuple(numbers.items())
        if key not in self._known:
            board = with_parameters(self.board, numbers)
            timing = Timing.of(board)
            runs = [simulate_time(p.program.instructions, board, timing) for p in self.probes]
            self._known[key] = np.array([float(run.cycles) for run in runs])
        return self._known[key]

    def start(self, numbers: Mapping[str, int]) -> float:
        """
        Return the constant cycles of the start of a stream, at least 0, with which the simulated
        cycles for the parameters `numbers` best fit the measurements.
        """
        weights = 1 / self.measured**2
        gaps = self.measured - self.cycles(numbers)
        return max(0.0, float((gaps * weights).sum() / weights.sum()))

    def loss(self, numbers: Mapping[str, int]) -> float:
        predicted = self.cycles(numbers) + self.start(numbers)
        return float(((predicted / self.measured - 1) ** 2).sum())

    def descend(self, start: Mapping[str, int]) -> dict[str, int]:
        """
        Return improved parameters: beginning at `start`, a parameter at a time is changed as long
        as the loss decreases, with smaller and smaller factors. The loss is the sum of squared
        relative errors.
        """
        best = dict(start)
        for factor in STEP_FACTORS:
            better = True
            while better:
                better = False
                for near in self._candidates(best, factor):
                    if self.loss(near) < self.loss(best) * (1 - 1e-9):
                        best, better = near, True
        return best

    @staticmethod
    def _candidates(parameters: Mapping[str, int], factor: float) -> list[dict[str, int]]:
        found: list[dict[str, int]] = []
        for name, value in parameters.items():
            up = max(value + 1, round(value * factor))
            down = max(MIN_PARAMETERS.get(name, 0), min(value - 1, round(value / factor)))
            found += [{**parameters, name: new} for new in (up, down) if new != value]
        return found


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-vta", _vta, argv)


@options
class MeasuredBoardOptions(VtaBoardOptions):
    """The option of `ceras-vta`."""

    board: str = inherited(VtaBoardOptions, "board", "zcu102")
    """Use this configuration, with TIMING and FPGA_FREQ."""


def make_parser() -> ToolParser:
    parser = ToolParser(
        "ceras-vta",
        description="Measure a board with VTA: write streams to measure the parameters, "
        "and compute a board file from the times.",
        epilog="Exit status: 0 done, 1 bad input, 2 wrong usage.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    calibrate = commands.add_parser(
        "calibrate",
        help="write the streams to a folder: NAME.insns, NAME.dram (the flat DRAM image before), "
        "config.json, and the purpose of each in manifest.json",
    )
    calibrate.add_argument("folder", metavar="FOLDER")
    add_options(calibrate, FolderOptions)
    fit = commands.add_parser(
        "fit",
        help="compute a board file from the times of the streams, and print the fit",
    )
    fit.add_argument(
        "times",
        metavar="TIMES.json",
        help="microseconds by name of the stream, the best of several runs",
    )
    fit.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="BOARD.toml|BOARD.json",
        help="default: JSON to stdout",
    )
    for command in (calibrate, fit):
        add_options(command, MeasuredBoardOptions)
    return parser


def _vta(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.command == "calibrate":
        _calibrate(arguments.folder, arguments.board, force=arguments.force)
    else:
        _fit(arguments.times, arguments.board, arguments.output)
    return 0


def _calibrate(folder: str, name: str, *, force: bool) -> None:

    board = load_board(name)
    with open_folder(folder, force=force) as place:
        files = {"config.json": "VTA configuration"}
        (place / "config.json").write_text(json.dumps(board.config(), indent=2) + "\n")
        found = probes(board)
        for probe in found:
            stream = probe.program.instruction_bytes(board)
            (place / f"{probe.name}.insns").write_bytes(stream)
            (place / f"{probe.name}.dram").write_bytes(probe.dram(board))
            files[f"{probe.name}.insns"] = f"instructions: {probe.purpose}"
            files[f"{probe.name}.dram"] = "flat DRAM image before"
        content: dict[str, object] = {
            "target": "vta",
            "files": files,
            "probes": {probe.name: probe.purpose for probe in found},
        }
        (place / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _fit(file: str, name: str, output: str) -> None:

    board = load_board(name)
    if board.clock_mhz is None:
        raise InputError("a board without FPGA_FREQ has no cycles: add the clock", name)
    all_probes = probes(board)
    times = _read_times(file, [probe.name for probe in all_probes])
    fitted = fit_board(board, all_probes, times)
    with open_output(output) as stream:
        stream.write(spelled(fitted.board, output))
    if output != "-":
        print(f"{'stream':14} {'measured us':>12} {'fitted us':>12}")
        for probe, predicted in fitted.predicted.items():
            print(f"{probe:14} {times[probe]:12.1f} {predicted:12.1f}")
        print(f"mean difference {fitted.error:.1%}; start of a stream {fitted.start_us:.1f} us")


def _read_times(file: str, names: Sequence[str]) -> dict[str, float]:
    try:
        content: object = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", file) from None
    if not isa(content, dict[str, object]):
        raise InputError("expected a JSON object with microseconds by stream", file)
    if missing := [name for name in names if name not in content]:
        raise InputError(f"no times for {', '.join(missing)}: run all streams", file)
    times: dict[str, float] = {}
    for name in names:
        value = content[name]
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
        ):
            raise InputError(f"{name} must be microseconds above 0, got {value!r}", file)
        times[name] = float(value)
    return times
