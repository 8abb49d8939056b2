"""`ceras-vta`: streams that tell what a board is like, and its board file from their times."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_files import MANIFEST, FolderOptions, open_folder, open_output
from ceras_ir.command.tool_parser import ToolParser, add_options
from ceras_ir.support.diagnostics import InputError


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-vta", _vta, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-vta`."""
    parser = ToolParser(
        "ceras-vta",
        description="Measure a board with VTA: write streams whose times tell its parameters, and "
        "make its board file of these times.",
        epilog="Exit status: 0 done, 1 bad input, 2 wrong usage.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    calibrate = commands.add_parser(
        "calibrate",
        help="write the streams to a folder: NAME.insns, NAME.dram (the flat DRAM image before), "
        "config.json, and what each tells in manifest.json",
    )
    calibrate.add_argument("folder", metavar="FOLDER")
    add_options(calibrate, FolderOptions)
    fit = commands.add_parser(
        "fit",
        help="make a board file of the times of the streams, and print how well it explains them",
    )
    fit.add_argument(
        "times",
        metavar="TIMES.json",
        help="microseconds of each stream by its name, best of several",
    )
    fit.add_argument("-o", "--output", default="-", metavar="BOARD.json", help="default: stdout")
    for command in (calibrate, fit):
        command.add_argument(
            "--board",
            default="zcu102",
            metavar="NAME|FILE",
            help="its configuration, with TIMING and FPGA_FREQ (default: zcu102)",
        )
    return parser


def _vta(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.command == "calibrate":
        _calibrate(arguments.folder, arguments.board, force=arguments.force)
    else:
        _fit(arguments.times, arguments.board, arguments.output)
    return 0


def _calibrate(folder: str, name: str, *, force: bool) -> None:
    from ceras_ir.backends.vta.execution.calibration import probes
    from ceras_ir.backends.vta.machine.board import load_board

    board = load_board(name)
    with open_folder(folder, force=force) as place:
        files = {"config.json": "VTA configuration"}
        (place / "config.json").write_text(json.dumps(board.config(), indent=2) + "\n")
        found = probes(board)
        for probe in found:
            stream = probe.program.instruction_bytes(board)
            (place / f"{probe.name}.insns").write_bytes(stream)
            (place / f"{probe.name}.dram").write_bytes(probe.dram(board))
            files[f"{probe.name}.insns"] = f"instructions: {probe.tells}"
            files[f"{probe.name}.dram"] = "flat DRAM image before"
        content: dict[str, object] = {
            "target": "vta",
            "files": files,
            "probes": {probe.name: probe.tells for probe in found},
        }
        (place / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _fit(file: str, name: str, output: str) -> None:
    from ceras_ir.backends.vta.execution.calibration import fit_board, probes
    from ceras_ir.backends.vta.machine.board import load_board

    board = load_board(name)
    if board.clock_mhz is None:
        raise InputError("a board without FPGA_FREQ has no cycles: give its clock", name)
    every = probes(board)
    times = _read_times(file, [probe.name for probe in every])
    fitted = fit_board(board, every, times)
    with open_output(output) as stream:
        stream.write(json.dumps(fitted.board.config(), indent=2) + "\n")
    if output != "-":
        print(f"{'stream':14} {'measured us':>12} {'explained':>12}")
        for probe, explained in fitted.predicted.items():
            print(f"{probe:14} {times[probe]:12.1f} {explained:12.1f}")
        print(
            f"mean difference {fitted.error:.1%}; starting a stream takes {fitted.start_us:.1f} us"
        )


def _read_times(file: str, names: Sequence[str]) -> dict[str, float]:
    """Microseconds of all probes; refuses what is missing or no time."""
    try:
        content: object = json.loads(Path(file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", file) from None
    if not isa(content, dict[str, object]):
        raise InputError("a JSON object with microseconds by stream is needed", file)
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
