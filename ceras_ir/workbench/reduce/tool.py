"""Implement `ceras-reduce`: find the smallest input for which a command exits with status 0."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.tool_parser import ToolParser, add_options, add_output, add_time_limit
from ceras_ir.driver.opt.argv import PartOptions
from ceras_ir.frontends.formats import ONNX, TEXT, ending_of, is_model
from ceras_ir.pipeline.context import add_plugins, plugins
from ceras_ir.pipeline.parsing import check_ending, display_name
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.driver.opt.modes import ShellCommand
    from ceras_ir.workbench.reduce.search import Reduction


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-reduce", _reduce, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-reduce`."""
    parser = ToolParser(
        "ceras-reduce",
        description="Reduce a module or an ONNX model while a command exits with status 0. "
        "Operations are removed, elements of constants become equal, and shapes become smaller. "
        "Candidates of valid input are valid.",
        epilog=f"{EXIT_STATUS} The command must exit with 0 for the input.",
    )
    add = parser.add_argument
    add("input", metavar="FILE", help="IR text in .mlir, or an ONNX model; -: IR text on stdin")
    add_output(parser, "OUT", "write the smallest input to this file; -: stdout", required=True)
    add(
        "--test",
        metavar="'CMD {input}'",
        required=True,
        help="run this shell command on each candidate; {input} is the file. For example: "
        "\"ceras-opt {input} --my-pass --reproducer= 2>&1 | grep -q 'crashed'\"",
    )
    add(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="reject a candidate if the command runs longer (default: %(default)g)",
    )
    add_time_limit(
        parser,
        float,
        "stop after this time and write the smallest input so far (default: no limit)",
    )
    add_options(parser, PartOptions, ["allow_unregistered_dialect"])
    add_plugins(parser.add_argument_group("plugins"))
    return parser


def _reduce(argv: Sequence[str]) -> int:
    with plugins(argv):
        return _run(make_parser().read(argv))


def _run(arguments: argparse.Namespace) -> int:
    from ceras_ir.command.exit_status import naming
    from ceras_ir.command.output_files import refuse_overwriting, write_file
    from ceras_ir.driver.opt.modes import ShellCommand

    for flag in ("timeout", "time_limit"):
        value: float | None = getattr(arguments, flag)
        if value is not None and not value > 0:
            raise UsageError(f"--{flag.replace('_', '-')} must be positive, got {value:g}")
    path: str = arguments.input
    check_ending(path)
    refuse_overwriting(arguments.output, path)
    suffix = ONNX if is_model(path) else TEXT
    if is_model(path) and ending_of(path) != ONNX:
        raise UnsupportedError(
            f"unsupported: only ONNX models and IR text are reduced; print the text first: "
            f"ceras-opt {path} -o network.mlir",
            path,
        )
    command = ShellCommand(
        arguments.test, suffix, timeout=arguments.timeout, limit=arguments.time_limit
    )
    with naming(display_name(path)):
        reduction = (
            _of_model(path, command)
            if is_model(path)
            else _of_text(path, command, unregistered=arguments.allow_unregistered_dialect)
        )
        try:
            reduction.run(_say if sys.stderr.isatty() else lambda text: None)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
    write_file(arguments.output, reduction.data)
    print(
        f"{display_name(path)}: {reduction.first} operations, reduced to {reduction.left} in "
        f"{command.runs} runs",
        file=sys.stderr,
    )
    if interrupted:
        _say("interrupted: the smallest input so far is written")
    return 130 if interrupted else 0


def _of_model(path: str, command: "ShellCommand") -> "Reduction[ModelProto]":
    from ceras_ir.frontends.onnx.model.model_file import read_model
    from ceras_ir.workbench.reduce.onnx_subject import OnnxSubject, is_in_one_file
    from ceras_ir.workbench.reduce.search import Reduction

    model = read_model(path)
    if not is_in_one_file(model):
        raise InputError("the model has tensors in other files: save it as a single file first")
    return Reduction(OnnxSubject(model), model, command)


def _of_text(path: str, command: "ShellCommand", *, unregistered: bool) -> "Reduction[ModuleOp]":
    from ceras_ir.pipeline.context import load_context, load_universe
    from ceras_ir.pipeline.parsing import parse_text, read_text
    from ceras_ir.workbench.reduce.ir_subject import IrSubject, without_places
    from ceras_ir.workbench.reduce.search import Reduction

    text = read_text(path)
    ctx = load_context(load_universe(), allow_unregistered=unregistered)
    module = without_places(parse_text(ctx, text, display_name(path)))
    return Reduction(IrSubject(module, names="loc(" in text), module, command)


def _say(text: str) -> None:
    print(f"{shown_name('ceras-reduce')}: {text}", file=sys.stderr)
