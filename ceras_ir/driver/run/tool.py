"""`ceras-run`: execute a model, IR text at any level, or a compiled folder on given inputs."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_file import refuse_overwriting
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.options import EXIT_STATUS, add_build_options, add_target, build_options
from ceras_ir.support.diagnostics import InputError, UsageError

if TYPE_CHECKING:
    from ceras_ir.data.samples import Samples
    from ceras_ir.driver.run.execute import Executable
    from ceras_ir.network.artefacts import TensorInfo


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-run", _run, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-run`."""
    parser = ToolParser(
        "ceras-run",
        description="Run an ONNX model (by the interpreter, or compiled for a target), IR text at "
        "any level, or a folder that ceras-compile wrote. Arrays in .npz files are named as "
        "the network's inputs and outputs; their first axis is samples.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("model", metavar="MODEL.onnx|IR.mlir|DIR", nargs="?", help="what to run")
    parser.add_argument("--inputs", metavar="IN.npz", help="one array per input")
    parser.add_argument("--outputs", metavar="OUT.npz", help="written at the end")
    add_target(parser, interpreter=True)
    add_build_options(parser)
    parser.add_argument(
        "--vta-runner",
        metavar="'CMD {config} {dram} {insns} {out}'",
        help="run each VTA launch in this program instead of the built-in simulator: {config} is "
        "VTA's JSON, {dram} the flat DRAM image before, {insns} the raw instructions, {out} "
        "where the program leaves the image after",
    )
    parser.add_argument(
        "--vta-stream",
        metavar="FILE",
        help="instead of a model: print the cycles of a VTA stream, raw or as .vtas text, on "
        "--board; with --inputs and --outputs, flat DRAM images, run it as well",
    )
    return parser


def _run(argv: Sequence[str]) -> int:
    parser = make_parser()
    arguments = parser.read(argv)
    if arguments.vta_stream is not None:
        from ceras_ir.backends.vta.run_stream import run_stream

        run_stream(arguments)
        return 0
    needed = {"MODEL.onnx|IR.mlir|DIR": "model", "--inputs": "inputs", "--outputs": "outputs"}
    if missing := [k for k, v in needed.items() if getattr(arguments, v) is None]:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    read = arguments.model, arguments.inputs, *(arguments.calibrate or ())
    refuse_overwriting(arguments.outputs, *read)
    path = Path(arguments.model)
    if arguments.vta_runner is not None and not (path.is_dir() or arguments.target == "vta"):
        raise UsageError("--vta-runner needs --target vta or a folder compiled for it")
    if path.is_dir():
        if arguments.target is not None:
            raise UsageError("a compiled folder has its target already: leave out --target")
        _run_folder(path, arguments)
    elif arguments.target in (None, "interp"):
        _interpret(arguments)
    else:
        _compile_and_execute(arguments)
    return 0


def _interpret(arguments: argparse.Namespace) -> None:
    from ceras_ir.command.named_file import naming
    from ceras_ir.data.samples import load_samples
    from ceras_ir.driver.pipeline.context import load_context
    from ceras_ir.driver.pipeline.stages import front_stages, read_network, run_stages
    from ceras_ir.driver.run.execute import Interpreted
    from ceras_ir.network.artefacts import network_outputs
    from ceras_ir.network.function import main_function

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        samples = load_samples(arguments.inputs, module)
        options = build_options(arguments, "interp")
        options.check()
        options = options.resolved(module)
        if options.is_quantized or options.prune is not None or options.encoding is not None:
            run_stages(load_context(), module, front_stages(options))
        declared = network_outputs(main_function(module))
        _execute(Interpreted(module), samples, declared, arguments.outputs)


def _compile_and_execute(arguments: argparse.Namespace) -> None:
    from ceras_ir.command.named_file import naming
    from ceras_ir.command.output_folder import write_artefacts
    from ceras_ir.data.samples import load_samples
    from ceras_ir.driver.pipeline.build import build
    from ceras_ir.driver.pipeline.stages import read_network

    options = build_options(arguments, arguments.target).for_host()
    options.check()
    with naming(arguments.model), tempfile.TemporaryDirectory(prefix="ceras-run-") as folder:
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        samples = load_samples(arguments.inputs, module)
        write_artefacts(Path(folder), build(module, options).files())
        _execute_folder(Path(folder), samples, arguments)


def _run_folder(folder: Path, arguments: argparse.Namespace) -> None:
    from ceras_ir.data.samples import load_samples
    from ceras_ir.driver.pipeline.build import manifest_tensors, read_manifest

    inputs = manifest_tensors(read_manifest(folder), "inputs", folder)
    _execute_folder(folder, load_samples(arguments.inputs, inputs), arguments)


def _execute_folder(folder: Path, samples: "Samples", arguments: argparse.Namespace) -> None:
    from ceras_ir.driver.pipeline.build import manifest_tensors, read_manifest
    from ceras_ir.driver.run.execute import open_folder

    declared = manifest_tensors(read_manifest(folder), "outputs", folder)
    _execute(open_folder(folder, arguments.vta_runner), samples, declared, arguments.outputs)


def _execute(
    executable: "Executable", samples: "Samples", declared: "Sequence[TensorInfo]", outputs: str
) -> None:
    from ceras_ir.data.samples import as_declared, join, save_arrays
    from ceras_ir.support.progress import progress

    if not Path(outputs).absolute().parent.is_dir():
        raise InputError("no such folder", str(Path(outputs).parent))
    results = list(progress(executable.run(list(samples)), "running", len(samples)))
    save_arrays(outputs, as_declared(join(results, samples), declared))
