"""`ceras-compile`: compile a model into a folder that its target can run."""

import argparse
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.conditions import (
    BYTES,
    COUNT,
    KIB,
    MICROSECONDS,
    NUMBER,
    SHARE,
    Quantity,
    Value,
    add_conditions,
    check_conditions,
    met_conditions,
    print_met,
)
from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.help_parser import usual
from ceras_ir.command.output_files import FolderOptions
from ceras_ir.command.tool_parser import ToolParser, add_options, add_output
from ceras_ir.driver.build_options import (
    BisectPassesOptions,
    add_build_options,
    build_options,
    watching_of,
)
from ceras_ir.driver.data_options import calibration_workers
from ceras_ir.driver.lengths import read_networks
from ceras_ir.driver.model_options import MODEL_FILE, given_lengths, read_model
from ceras_ir.driver.target_help import list_target_options
from ceras_ir.driver.target_options import (
    TargetClass,
    add_target,
    add_target_options,
    compiling_targets,
    described_targets,
    named_target,
    native_target,
    target_of,
)
from ceras_ir.pipeline.context import plugins
from ceras_ir.pipeline.stages import BuildOptions, pruning
from ceras_ir.pipeline.totals import missing_totals, total_figures, total_units
from ceras_ir.support.diagnostics import (
    DoesNotFitError,
    InputError,
    UnsupportedError,
    UsageError,
    no_remarks,
    progress,
)
from ceras_ir.support.extensions import need_hook
from ceras_ir.targets.protocol import PLACED, Stage, require_members
from ceras_ir.transforms.quantization_options import MAX_BITS

if TYPE_CHECKING:
    from ceras_ir.pipeline.build import Build

VIEWS = ("report", "model-explorer")
"""The options that an extension implements, in the order of their files."""

TEMPORARY_DESCRIPTION = "the network at a level"
"""The description of files in `temps` for the manifest."""

QUANTITIES: Mapping[str, Quantity] = {
    "bytes": BYTES,
    "count": COUNT,
    "cycles": COUNT,
    "microseconds": MICROSECONDS,
    "share": SHARE,
}
"""The quantities of totals with these units."""


class CompileView(ABC):
    """
    Files that describe a compilation, for an option of `ceras-compile` such as `--report`. An
    extension implements them.
    """

    def __init__(self, options: BuildOptions):
        self.options = options

    @abstractmethod
    def see(self, level: str, title: str, module: ModuleOp) -> None:
        """Receive the module at the end of a level. `title` is the name of the level in reports."""

    @abstractmethod
    def add(self, compiled: "Build") -> None:
        """Add the described files to the files of the compiled network."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compile", _compile, argv)


def make_parser(target: TargetClass | None = None) -> ToolParser:
    """Return the command line of `ceras-compile`, with the options of a target."""
    known, native = compiling_targets(), native_target().name
    parser = ToolParser(
        "ceras-compile",
        description="Compile an ONNX model (or IR text) into a folder of artefacts with "
        "manifest.json and report.json. With --target, --help-all lists its options too.",
        epilog=f"{described_targets(known)} {EXIT_STATUS}",
        examples=(
            f"model.onnx --target {native} --calibrate data.npz -o compiled",
            f"model.onnx --target {native} --board uno_r4_wifi --report -o compiled",
        ),
    )
    parser.add_argument("model", metavar="MODEL.onnx", help=MODEL_FILE)
    add_output(parser, "DIR", "write the folder here", required=True)
    add_options(parser, FolderOptions)
    add_target(parser, known, "compile for this target", required=True)
    add_build_options(parser)
    add_options(parser, BuildOptions, ["io", "flash"])
    parser.add_argument(
        "--save-temps",
        action="store_true",
        help="keep the IR of each level, and other intermediate files, in DIR/temps",
    )
    parser.add_argument(
        "--emit-levels",
        action="store_true",
        help="write the graph of each level as an ONNX model into DIR/levels, for viewers such "
        "as Netron",
    )
    parser.add_argument(
        "--model-explorer",
        action="store_true",
        help="write the graphs of all levels, and times, cycles and bytes by node, into "
        "DIR/model_explorer, for the viewer Model Explorer",
    )
    add_options(parser, BisectPassesOptions)
    parser.add_argument(
        "--why",
        action="append",
        default=[],
        metavar="NODE",
        help="print the device of a node, and the reason; may be repeated",
    )
    usual(
        parser.add_argument(
            "--report",
            action="store_true",
            help="write the page DIR/report.html, as ceras-report, with the noise of "
            "quantization if --calibrate is given",
        )
    )
    add_conditions(
        parser,
        '"flash>64K" or "latency_us>=2.5ms". Metrics are the totals of report.json: flash_bytes, '
        "sram_bytes, weight_bytes, stack_bytes, macs, latency_us and so on; flash is short for "
        "flash_bytes. Units: B, K or KiB, M or MiB for bytes; decimal K and M for counts; us "
        "(default), ms, s for times",
    )
    add_target_options(parser, [] if target is None else [target])
    if target is None:
        list_target_options(parser)
    return parser


def _compile(argv: Sequence[str]) -> int:
    with plugins(argv):
        chosen = named_target(argv, compiling_targets())
        arguments = make_parser(chosen).read(argv)
        assert chosen is not None, "the parser requires a target"
        require_members(chosen, "lower", "emit")
        with calibration_workers(arguments):
            return _build(arguments, chosen, argv)


def _build(arguments: argparse.Namespace, chosen: TargetClass, argv: Sequence[str]) -> int:
    options = build_options(arguments, target_of(chosen, arguments))
    options.check()
    metrics = _metrics(chosen)
    check_conditions(arguments.fail_if, metrics)
    if arguments.model == "-":
        raise UsageError("the report has the digest of the model: give a file instead of -")
    pruning(options)
    views = [
        need_hook(name, CompileView, f"--{name}")(options)
        for name in VIEWS
        if getattr(arguments, name.replace("-", "_"))
    ]

    from ceras_ir.command.exit_status import naming
    from ceras_ir.command.output_files import write_artefacts
    from ceras_ir.command.output_folder import open_folder
    from ceras_ir.data.magnitudes import PEAKS, note_calibration
    from ceras_ir.network.function import main_function
    from ceras_ir.pipeline.build import build, provenance
    from ceras_ir.pipeline.flash_limit import within_flash
    from ceras_ir.pipeline.lengths import build_lengths
    from ceras_ir.pipeline.report import table

    lengths = given_lengths(arguments)
    with naming(arguments.model):
        networks = None if lengths is None else read_networks(arguments, options.target, lengths)
        module = read_model(arguments) if networks is None else networks.largest
        peaks = note_calibration(options.calibration, main_function(module))
        with open_folder(arguments.output, force=arguments.force) as folder:
            writers: list[tuple[Path, Callable[[Path, ModuleOp], None]]] = []
            if arguments.save_temps:
                writers.append((folder / "temps", _write_text))
            if arguments.emit_levels:
                writers.append((folder / "levels", _write_graph))
            numbers, answers = count(), list[str]()

            def see(level: str, title: str, module: ModuleOp) -> None:
                words = "".join(c if c.isalnum() or c in "-_" else " " for c in title).split()
                name = f"{next(numbers)}-{'-'.join(words)}"
                for place, write in writers:
                    place.mkdir(parents=True, exist_ok=True)
                    write(place / name, module)
                for view in views:
                    view.see(level, title, module)

            def after(stage: Stage, module: ModuleOp) -> None:
                see(stage.level, stage.title, module)
                if stage.level == PLACED:
                    answers[:] = _explanations(module, arguments.why)

            see("graph", "graph", module)

            begun = time.monotonic()
            try:
                if options.flash is not None:
                    if networks is not None:
                        raise UsageError("--flash and several lengths: compile each length")
                    options = within_flash(module.clone, options)
                if networks is None:
                    compiled = build(module, options, after, watching_of(arguments, None)).measure()
                else:
                    compiled = build_lengths(networks, options, after).measure()
            except DoesNotFitError as error:
                if networks is not None:
                    raise
                read = partial(read_model, arguments)
                raise remedied(error, read, options, time.monotonic() - begun) from None
            if arguments.save_temps:
                more = options.target.temporaries(compiled.module)
                write_artefacts(folder / "temps", more)
            other_files = {
                path.relative_to(folder).as_posix(): TEMPORARY_DESCRIPTION
                for path in _files(folder)
            }
            if peaks:
                compiled.emission.manifest[PEAKS] = peaks
            compiled.report["provenance"] = provenance(
                "ceras-compile", argv, arguments.model, options
            )
            values, reasons = _values(compiled.report), missing_totals(compiled.emission.figures)
            met = list(met_conditions(arguments.fail_if, values, metrics, reasons))
            for view in views:
                view.add(compiled)
            write_artefacts(folder, compiled.files(other_files))
    print(table(compiled.report, chosen.name, compiled.emission))
    for line in answers:
        print(line)
    return print_met("ceras-compile", met)


def _metrics(target: TargetClass) -> dict[str, Quantity]:
    """
    Return the metrics that `--fail-if` accepts, and their units: the totals of reports for
    `target`.
    """
    units = total_units([target])
    return {name: QUANTITIES.get(unit, NUMBER) for name, unit in units.items()}


def _values(content: Mapping[str, object]) -> list[Value]:
    return [Value(name, number) for name, number in total_figures(content).items()]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _explanations(module: ModuleOp, nodes: Sequence[str]) -> list[str]:
    from ceras_ir.transforms.placement import explanation, unknown_node

    answers: list[str] = []
    for node in nodes:
        if not (lines := explanation(module, node)):
            raise UsageError(f"--why: {unknown_node(module, node)}")
        answers += lines
    return answers


def _write_text(path: Path, module: ModuleOp) -> None:
    from ceras_ir.pipeline.printing import print_module

    with open(f"{path}.mlir", "w", encoding="utf-8") as stream:
        print_module(module, stream, names=True)


def _write_graph(path: Path, module: ModuleOp) -> None:
    """Write the module in each format for network viewers that supports the level."""
    for target in compiling_targets():
        try:
            found = target.viewer_model(module, path.name)
        except UnsupportedError as error:
            first = error.lines(str(path.name))[0]
            print(
                f"{shown_name('ceras-compile')}: note: this level has no graph: {first}",
                file=sys.stderr,
            )
            continue
        if found is not None:
            ending, data = found
            Path(f"{path}{ending}").write_bytes(data)


# Options with which a network fits that is too large for its board.

MAX_TRIAL_SECONDS = 60.0
"""The time limit for trials; a trial is assumed to last as long as the longest compile so far."""


@dataclass(frozen=True)
class OptionTrial:
    """A change of options that may make the network small enough for the board."""

    change: str
    """The option as a user writes it."""
    options: BuildOptions
    advice: str = ""
    """A sentence for the user about the consequence of the change."""

    def build(self, read: Callable[[], ModuleOp]) -> "Build":
        """Compile the network that `read` imports. Raise `DoesNotFitError` if it does not fit."""
        from ceras_ir.pipeline.build import build
        from ceras_ir.pipeline.flash_limit import within_flash

        options = self.options
        return build(read(), options if options.flash is None else within_flash(read, options))


def trials(
    options: BuildOptions, totals: Mapping[str, float] = MappingProxyType({})
) -> Iterator[OptionTrial]:
    """
    Yield changes of `options` that make the network smaller, in the order of lost accuracy and
    required work. `options` must be resolved (without defaults that depend on the network).
    `totals` has the sizes of the network and of the board.
    """
    narrow = "--weight-bits 4"
    packs = min(options.target.arithmetic.weight_widths) < MAX_BITS
    loss = f"ceras-compare {narrow} prints the loss of accuracy"
    if options.is_quantized:
        if options.io == "model":
            yield OptionTrial("--io int8", replace(options, io="int8"))
        if options.budget != 0:
            yield OptionTrial("--budget 0", replace(options, budget=0.0))
            if options.io == "model":
                both = replace(options, io="int8", budget=0.0)
                yield OptionTrial("--budget 0 --io int8", both)
        if not packs or options.weight_bits or options.flash or options.has_applied_quantization:
            return
        flash = int(totals.get("board_flash_bytes", 0))
        if options.calibration is not None and totals.get("flash_bytes", 0) > flash > 0:
            text = f"{flash // KIB}K" if flash % KIB == 0 else str(flash)
            limit = f"--flash {text}"
            advice = f"ceras-compile {limit} prints the widths and the loss"
            yield OptionTrial(limit, replace(options, flash=flash), advice)
        else:
            yield OptionTrial(narrow, replace(options, weight_bits=("4",)), loss)
        return
    data = "--calibrate DATA.npz keeps the accuracy"
    int8 = replace(options, quantize="int8")
    yield OptionTrial("--quantize int8", int8, data)
    yield OptionTrial("--quantize int8 --io int8", replace(int8, io="int8"), data)
    both = replace(int8, io="int8", budget=0.0)
    yield OptionTrial("--quantize int8 --io int8 --budget 0", both, data)
    if packs:
        weights = replace(int8, weight_bits=("4",))
        yield OptionTrial(f"--quantize int8 {narrow}", weights, f"{data}; {loss}")


def remedied(
    error: DoesNotFitError,
    read: Callable[[], ModuleOp],
    options: BuildOptions,
    longest: float,
    limit: float = MAX_TRIAL_SECONDS,
) -> DoesNotFitError:
    """
    Return `error` with a new first remedy: the first change of `options` after which the network
    fits. Print the changes that were tried and did not fit.

    `read` imports the network again. `longest` is the longest duration of a compilation so far, in
    seconds. A trial that would probably end after `limit` seconds is not started.
    """
    until = time.monotonic() + limit
    failed: list[str] = []
    left = list(trials(options.resolved(read()), error.totals))
    for trial in progress(left, "searching options that fit"):
        begun = time.monotonic()
        if begun + longest > until:
            print(
                f"{shown_name('ceras-compile')}: note: no time to try {trial.change}",
                file=sys.stderr,
            )
            break
        try:
            # Notes of trials would confuse the user.
            with redirect_stderr(StringIO()), no_remarks():
                built = trial.build(read)
        except DoesNotFitError as found:
            failed.append(f"{trial.change}: {found.sizes}")
        except InputError as found:
            failed.append(f"{trial.change}: {str(found).splitlines()[0]}")
        else:
            sizes = built.emission.size_line or "fits"
            more = f" ({trial.advice})" if trial.advice else ""
            return _with(error, [f"{trial.change}: {sizes}{more}"], failed)
        longest = max(longest, time.monotonic() - begun)
    return _with(error, [], failed)


def _with(error: DoesNotFitError, ways: Sequence[str], failed: Sequence[str]) -> DoesNotFitError:
    for text in failed:
        print(f"{shown_name('ceras-compile')}: note: tried and too large: {text}", file=sys.stderr)
    return DoesNotFitError(error.sizes, error.largest, [*ways, *error.ways], error.file)
