"""`ceras-run`: execute a model, IR text at any level, or a compiled folder on given inputs."""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.help_parser import usual
from ceras_ir.command.output_files import refuse_overwriting
from ceras_ir.command.tool_parser import REQUIRED, ToolParser, add_options
from ceras_ir.driver.build_options import (
    BisectPassesOptions,
    add_build_options,
    build_options,
    watching_of,
)
from ceras_ir.driver.data_options import add_inputs, calibration_workers, inputs_of
from ceras_ir.driver.lengths import fitting_samples, read_networks, run_networks
from ceras_ir.driver.model_options import given_lengths, read_model
from ceras_ir.driver.target_help import list_target_options
from ceras_ir.driver.target_options import (
    TargetClass,
    add_target,
    add_target_options,
    described_targets,
    named_target,
    native_target,
    reference_target,
    target_of,
)
from ceras_ir.pipeline.context import plugins
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError, remark
from ceras_ir.targets.protocol import Target, require_members
from ceras_ir.targets.registry import all_targets, find_target

if TYPE_CHECKING:
    from ceras_ir.data.sample_stream import StreamedSamples
    from ceras_ir.data.samples import Samples
    from ceras_ir.driver.answers import Labels
    from ceras_ir.network.artefacts import TensorInfo
    from ceras_ir.pipeline.instrumentation import Watching
    from ceras_ir.targets.capabilities import Executable, Manifest

    Execution: TypeAlias = Callable[
        [Executable, Samples | StreamedSamples, Sequence[TensorInfo]], None
    ]
    """A function that runs samples and delivers the outputs, which are declared."""

    Opening: TypeAlias = Callable[[Target, Path, Manifest], Executable]
    """A function that returns the machine for a compiled folder."""

MAX_SHOWN = 10
"""The largest number of samples whose outputs are printed."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-run", _run, argv)


def make_parser(target: TargetClass | None = None) -> ToolParser:
    """Return the command line of `ceras-run`, with the options of a target."""
    known = all_targets()
    parser = ToolParser(
        "ceras-run",
        description="Run an ONNX model (by the interpreter, or compiled for a target), IR text at "
        "any level, or a folder that ceras-compile wrote. Without --outputs, print the outputs of "
        f"the first {MAX_SHOWN} samples. Arrays in .npz files are named as the network's inputs "
        "and outputs; their first axis is samples. With --target, --help-all lists its options "
        "too.",
        epilog=f"{described_targets(known)} {EXIT_STATUS}",
        examples=(
            "model.onnx --inputs photo.jpg --labels classes.txt",
            f"model.onnx --target {native_target().name} --inputs test.npz --outputs answers.npz",
        ),
    )
    parser.add_argument("model", metavar="MODEL.onnx|IR.mlir|DIR", nargs="?", help="what to run")
    add_inputs(parser, "run on these inputs")
    usual(
        parser.add_argument(
            "--outputs",
            metavar="OUT.npz",
            help="write outputs here at the end, instead of printing answers",
        )
    )
    usual(
        parser.add_argument(
            "--labels",
            metavar="FILE",
            help="the names of classes for printed answers, a line per class",
        )
    )
    usual(
        parser.add_argument(
            "--emulate",
            action="store_true",
            help="compute on the emulated core of the board instead of on this machine",
        )
    )
    add_target(parser, known, "compile for this target and run there (default: the interpreter)")
    add_build_options(parser)
    add_options(parser, BisectPassesOptions)
    for cls in known:
        for flag, action in cls.run_actions.items():
            parser.add_argument(flag, metavar=action.metavar, help=action.help)
            for switch, text in action.switches.items():
                parser.add_argument(switch, action="store_true", help=f"with {flag}: {text}")
            for option, (metavar, text) in action.values.items():
                parser.add_argument(option, metavar=metavar, help=f"with {flag}: {text}")
    add_target_options(parser, [reference_target() if target is None else target])
    if target in (None, reference_target()):
        list_target_options(parser)
    return parser


def _run(argv: Sequence[str]) -> int:
    with plugins(argv):
        manifests: dict[Path, Manifest] = {}
        return _run_on(_target(argv, manifests), argv, manifests)


def _target(argv: Sequence[str], manifests: "dict[Path, Manifest]") -> TargetClass:
    """
    Return the target with options that `argv` may contain: the target after `--target`, the target
    of an action, or the target of a compiled folder. The manifest of such a folder is stored in
    `manifests`, so that it is read once.
    """
    if (named := named_target(argv)) is not None:
        return named
    flags = {argument.partition("=")[0] for argument in argv}
    for cls in all_targets():
        if not flags.isdisjoint(cls.run_actions):
            return cls
    from ceras_ir.command.output_files import MANIFEST
    from ceras_ir.pipeline.build import read_manifest

    for path in map(Path, argv):
        if (path / MANIFEST).is_file():
            manifests[path] = read_manifest(path)
            return find_target(manifests[path].target)
    return reference_target()


def _run_on(cls: TargetClass, argv: Sequence[str], manifests: "Mapping[Path, Manifest]") -> int:
    parser = make_parser(cls)
    arguments = parser.read(argv)

    def given(flag: str) -> object:
        return getattr(arguments, flag.removeprefix("--").replace("-", "_"))

    for flag, action in cls.run_actions.items():
        if given(flag) is not None:
            from ceras_ir.support.plugin_modules import qualified
            from ceras_ir.universe import load

            function = load(qualified(action.function, cls))
            assert callable(function), action.function
            function(arguments)
            return 0
    for other in all_targets():
        for flag, action in other.run_actions.items():
            if useless := [o for o in (*action.switches, *action.values) if given(o)]:
                raise UsageError(f"{useless[0]} has no effect without {flag}: add it")
    needed = {"MODEL.onnx|IR.mlir|DIR": "model", "--inputs": "inputs"}
    if missing := [k for k, v in needed.items() if getattr(arguments, v) is None]:
        parser.error(f"{REQUIRED}: {', '.join(missing)}")
    read = arguments.model, arguments.inputs, *(arguments.calibrate or ())
    refuse_overwriting(arguments.outputs, *read)
    execute = _execution(arguments)
    path = Path(arguments.model)
    if not path.is_dir():
        _run_model(arguments, cls, execute)
    elif arguments.target is not None:
        raise UsageError("a compiled folder has a target: remove --target")
    elif arguments.at:
        raise UsageError("a compiled folder has no levels: remove --at, or give the model")
    elif arguments.bisect_passes:
        raise UsageError(
            "no pass runs on a compiled folder: remove --bisect-passes, or give the model"
        )
    else:
        _refuse_choices(arguments)
        _run_folder(path, manifests.get(path), arguments, cls, execute)
    return 0


def _refuse_choices(arguments: argparse.Namespace) -> None:
    parser = ToolParser("ceras-run")
    add_build_options(parser)
    for action in parser.listed_actions:
        # Image options can apply to inputs, and the target can be from a plugin.
        if action.dest.startswith(("image_", "load_")):
            continue
        if getattr(arguments, action.dest, None) not in (None, action.default):
            flag = action.option_strings[-1]
            raise UsageError(
                f"a compiled folder is not compiled again: remove {flag}, or give the model"
            )


def _run_model(arguments: argparse.Namespace, cls: TargetClass, execute: "Execution") -> None:
    from ceras_ir.command.exit_status import naming
    from ceras_ir.data.magnitudes import note_calibration, note_inputs, pixel_inputs
    from ceras_ir.data.sample_stream import open_samples
    from ceras_ir.network.artefacts import network_inputs
    from ceras_ir.network.function import main_function
    from ceras_ir.pipeline.parsing import display_name

    require_members(cls, "lower", "emit", "open")
    options = build_options(arguments, target_of(cls, arguments).for_host())
    options.check()
    # A folder that does not exist is another error.
    if arguments.emulate and not options.target.compiles and Path(arguments.model).exists():
        raise UsageError("--emulate runs compiled code: give --target and --board")
    with naming(display_name(arguments.model)), calibration_workers(arguments):
        inputs = inputs_of(arguments) or arguments.inputs
        if (lengths := given_lengths(arguments)) is not None:
            networks = read_networks(arguments, options.target, lengths)
            run_networks(networks, options, inputs, execute)
            return
        module = read_model(arguments)
        network = network_inputs(main_function(module))
        samples = open_samples(inputs, network)
        main = main_function(module)
        peaks, pixels = note_calibration(options.calibration, main), pixel_inputs(main)
        note_inputs(inputs, network, peaks, pixels=pixels, admits_nan=True)
        options, watching = options.resolved(module), watching_of(arguments, inputs)
        if options.target.compiles:
            opened = _emulated if arguments.emulate else _opened
            _compile_and_execute(module, options, samples, execute, watching, opened)
        else:
            _interpret(module, options, samples, execute, watching)


def _interpret(
    module: ModuleOp,
    options: BuildOptions,
    samples: "Samples | StreamedSamples",
    execute: "Execution",
    watching: "Watching | None",
) -> None:
    from ceras_ir.dialects.mem import arena_of
    from ceras_ir.network.artefacts import network_outputs
    from ceras_ir.network.function import is_quantized, main_function
    from ceras_ir.pipeline.context import load_context
    from ceras_ir.pipeline.stages import all_stages, run_stages

    # A network without changes is not fused, so its memory plan remains.
    main = main_function(module)
    planned = arena_of(main) is not None and is_quantized(main)
    changes = options.prune is not None or options.insertions or options.target.encode()
    if (options.is_quantized and not planned) or changes:
        run_stages(load_context(), module, all_stages(options), watching=watching)
    executable = options.target.interpret(module)
    assert executable is not None
    execute(executable, samples, network_outputs(main_function(module)))


def _compile_and_execute(
    module: ModuleOp,
    options: BuildOptions,
    samples: "Samples | StreamedSamples",
    execute: "Execution",
    watching: "Watching | None",
    opened: "Opening",
) -> None:
    from ceras_ir.pipeline.build import build

    with tempfile.TemporaryDirectory(prefix="ceras-run-") as name:
        folder = Path(name)
        manifest = build(module, options, watching=watching).write(folder)
        execute(opened(options.target, folder, manifest), samples, manifest.outputs)


def _opened(target: Target, folder: Path, manifest: "Manifest") -> "Executable":
    """
    Return the compiled network in `folder`, ready to run on this machine. Print a note if it was
    compiled for another machine.
    """
    from ceras_ir.targets.capabilities import NotEmulated

    for name, other in target.other_machines(folder, manifest):
        is_absent = isinstance(other, NotEmulated)
        hint = f"not emulated: {other.reason}" if is_absent else "--emulate uses the emulated core"
        remark(f"{shown_name('ceras-run')}: note: computed on this machine, not on {name} ({hint})")
    return target.open(folder, manifest)


def _emulated(target: Target, folder: Path, manifest: "Manifest") -> "Executable":
    """Return the compiled network in `folder`, ready to run on the emulated core of the board."""
    from ceras_ir.targets.capabilities import NotEmulated

    for name, machine in target.other_machines(folder, manifest):
        if isinstance(machine, NotEmulated):
            raise UnsupportedError(
                f"unsupported: {name} is not emulated: {machine.reason}; {machine.remedy}, or "
                "remove --emulate"
            )
        remark(
            f"{shown_name('ceras-run')}: note: computed on an emulated {name} "
            f"({machine.emulator}), on which no time is measured"
        )
        return machine
    raise UsageError(
        "--emulate runs the core of a microcontroller board, and target "
        f"{target.name} was not compiled for one: compile with --board and the name of a "
        "microcontroller board, or remove --emulate"
    )


def _run_folder(
    folder: Path,
    manifest: "Manifest | None",
    arguments: argparse.Namespace,
    cls: TargetClass,
    execute: "Execution",
) -> None:
    from xdsl.utils.hints import isa

    from ceras_ir.data.magnitudes import PEAKS, note_inputs
    from ceras_ir.data.sample_stream import open_samples
    from ceras_ir.network.length_table import LengthTable
    from ceras_ir.pipeline.build import check_digests, read_manifest

    target = target_of(cls, arguments)
    target.check()
    manifest = manifest or read_manifest(folder)
    check_digests(folder, manifest)
    inputs = inputs_of(arguments) or arguments.inputs
    given, declared = manifest.inputs, manifest.outputs
    table = LengthTable.from_manifest(manifest.content, given, declared)
    if table is None:
        samples = open_samples(inputs, given)
    else:
        index, samples = fitting_samples(inputs, table)
        given, declared = table.inputs[index], table.outputs[index]
    peaks = manifest.content.get(PEAKS)
    known = peaks if isa(peaks, dict[str, float]) else {}
    note_inputs(inputs, given, known, admits_nan=True)
    opened = _emulated if arguments.emulate else _opened
    execute(opened(target, folder, manifest), samples, declared)


def _execution(arguments: argparse.Namespace) -> "Execution":
    """
    Return a function that runs samples and then writes the outputs (`--outputs`) or prints answers.
    """
    if arguments.outputs is None:
        return partial(
            _print_answers, inputs_of(arguments) or arguments.inputs, _labels(arguments.labels)
        )
    if arguments.labels is not None:
        raise UsageError("--labels names printed classes: remove --labels or --outputs")
    return partial(_save_outputs, arguments.outputs)


def _labels(path: str | None) -> "Labels | None":
    if path is None:
        return None
    from ceras_ir.data.labels import read_labels
    from ceras_ir.driver.answers import Labels

    return Labels(read_labels(path), path)


def _save_outputs(
    path: str,
    executable: "Executable",
    samples: "Samples | StreamedSamples",
    declared: "Sequence[TensorInfo]",
) -> None:
    from ceras_ir.data.array_archive import save_arrays
    from ceras_ir.pipeline.build import run_all

    if not Path(path).absolute().parent.is_dir():
        raise InputError("no such folder: create it first", str(Path(path).parent))
    save_arrays(path, run_all(executable, samples, declared))


def _print_answers(
    paths: str,
    labels: "Labels | None",
    executable: "Executable",
    samples: "Samples | StreamedSamples",
    declared: "Sequence[TensorInfo]",
) -> None:
    from ceras_ir.data.image_folder import image_size
    from ceras_ir.data.sample_stream import sample_names
    from ceras_ir.data.samples import as_declared
    from ceras_ir.driver.answers import answers

    shown = list(samples.first(MAX_SHOWN))
    results = [as_declared(result, declared) for result in executable.run(shown)]
    outputs = [tensor for tensor in declared if tensor.name in results[0]]
    size = image_size([array.shape for array in shown[0].values()])
    for line in answers(results, outputs, sample_names(paths, len(shown)), labels, size):
        print(line)
    if others := len(samples) - len(shown):
        print(f"{others} more samples: --outputs OUT.npz writes the outputs of all samples")
