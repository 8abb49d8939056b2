"""
The command line of `ceras-opt`: each pass is a flag, and passes run in the order of the flags.

`argparse` supports neither: in `--fuse in.mlir` it would read the file as the value of the flag,
and it loses the order of flags with different names. Each pass flag is therefore rewritten to an
entry of a hidden option, which appends to the same list as `-p`.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import EXIT_STATUS
from ceras_ir.command.help_parser import add_help, usual
from ceras_ir.command.tool_parser import (
    UsageParser,
    add_options,
    add_output,
    add_version,
    values_of,
)
from ceras_ir.driver.build_options import BisectPassesOptions
from ceras_ir.driver.model_options import ShapeOptions
from ceras_ir.driver.worker_options import add_limits
from ceras_ir.pipeline.context import add_plugins
from ceras_ir.pipeline.instrumentation import DumpOptions
from ceras_ir.pipeline.pass_options import PassRequest, parse_pipeline
from ceras_ir.pipeline.printing import arguments_of
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import inherited, option, options
from ceras_ir.universe import refuse_removed

_RUN = "--run-pass="

WITHOUT_EFFECT = (
    "--mlir-disable-threading",
    "--mlir-print-ir-module-scope",
    "--mlir-print-local-scope",
    "--mlir-print-op-on-diagnostic",
    "--no-implicit-module",
)
"""Options of mlir-opt for behaviour that this tool always has."""


@options
class PartOptions:
    """The options for the treatment of the input text."""

    split_input_file: bool = option(False, usual=True)
    """Process the parts between '// -----' lines separately."""
    verify_diagnostics: bool = option(False)
    """Check '// expected-error@+1 {{...}}' comments instead of failing."""
    allow_unregistered_dialect: bool = option(False)
    """Accept operations of unknown dialects."""


@options
class PrintOptions(DumpOptions):
    """The options that select the printed IR and tables."""

    time_passes: bool = option(False, aliases=("--mlir-timing",), usual=True)
    """Print the time of each pass to stderr."""
    pass_statistics: bool = option(False, aliases=("--mlir-pass-statistics",))
    """
    Print statistics of each pass to stderr: operations created, erased and changed, time, growth of
    peak memory.
    """
    strip_names: bool = option(False)
    """Do not print names of layers."""
    dump_pass_pipeline: bool = option(False)
    """Print the passes to stderr, as -p accepts them."""


@options
class BisectionOptions(BisectPassesOptions):
    """The options of the search for the first pass that changes the outputs."""

    bisect_passes: bool = inherited(BisectPassesOptions, "bisect_passes", False)
    """
    Run the network after each pass, and stop at the first that changes the outputs, with status 1
    and a reproducer.
    """
    bisect_inputs: str | None = option(None, metavar="IN.npz")
    """Compare on these inputs (default: synthetic, seeded)."""
    bisect_samples: int | None = option(None, metavar="N", minimum=1)
    """Compare on this number of inputs (default: 2)."""
    bisect_tolerance: float | None = option(None, metavar="DB")
    """
    Accept this signal-to-noise ratio, for passes that may change values, such as quantization
    (default: integers exactly, floats within 1e-4 of the largest).
    """
    bisect_test: str | None = option(None, metavar="'CMD {input}'")
    """Stop instead at the first pass after which this shell command on the IR fails."""


@options
class ReproducerOptions:
    """The options for reproducers: files with a pass that crashed, and the IR before it."""

    reproducer: str | None = option(
        None, metavar="FILE", aliases=("--mlir-pass-pipeline-crash-reproducer",)
    )
    """
    Write the pass that crashes or creates invalid IR, and the IR before it, here (default:
    ceras-crash-PASS.mlir).
    """
    run_reproducer: str | None = option(None, metavar="FILE")
    """Run the pass of a reproducer on its IR; other options apply."""


@options
class InformationOptions:
    """The options that print information instead of running passes."""

    list_passes: bool = option(False, usual=True)
    """List all passes."""
    help_pass: str | None = option(None, metavar="PASS", usual=True)
    """Describe a pass and its options."""
    show_dialects: bool = option(False)
    """List all dialects."""


@dataclass(frozen=True)
class OptArguments(
    InformationOptions,
    ReproducerOptions,
    BisectionOptions,
    PrintOptions,
    PartOptions,
    ShapeOptions,
):
    """The parsed command line, with defaults filled in."""

    input: str = "-"
    output: str = "-"
    target: str = "mlir"
    requests: tuple[PassRequest, ...] = ()
    """All passes to run, in order."""
    verify_each: bool = True


def replayed(argv: Sequence[str]) -> list[str]:
    """
    Return `argv` with `--run-reproducer FILE` replaced by the arguments that the reproducer stores.
    """
    parser = UsageParser(add_help=False, allow_abbrev=False)
    add_options(parser, ReproducerOptions, ["run_reproducer"])
    found, rest = parser.parse_known_args(argv)
    if found.run_reproducer is None:
        return rest
    # The pass fails again: no second reproducer is written.
    return [*arguments_of(found.run_reproducer), "--reproducer=", *rest]


def parse_arguments(argv: Sequence[str], passes: Iterable[str]) -> OptArguments:
    """Parse the command line `argv` of `ceras-opt`, in which each name in `passes` is a flag."""
    names = frozenset(passes)
    parser = make_parser()
    found, unknown = parser.parse_known_args([_rewrite(argument, names) for argument in argv])
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            raise UsageError(f"more than one input file: '{flag}'")
        refuse_removed(flag.removeprefix("--"))
        flags = [o for action in parser.visible_actions() for o in action.option_strings]
        known = [*flags, *(f"--{name}" for name in names)]
        raise UsageError(f"unknown option '{flag}'{did_you_mean(flag, known)}")
    given = OptArguments(
        input=found.input,
        output=found.output,
        target=found.target,
        requests=tuple(request for requests in found.pipeline for request in requests),
        verify_each=found.verify_each,
    )
    return replace(given, **values_of(OptArguments, found))


def _rewrite(argument: str, passes: frozenset[str]) -> str:
    flag, _, options = argument.partition("=")
    if flag.startswith("--") and flag[2:] in passes:
        return f"{_RUN}{flag[2:]} {options}"
    return argument


def _flag_request(text: str) -> list[PassRequest]:
    name, _, options = text.partition(" ")
    # mlir-opt's spelling is --pass="{x=1}".
    if options.startswith("{") and options.endswith("}"):
        options = options[1:-1]
    return [PassRequest(name, options)]


class _OptParser(UsageParser):
    def visible_actions(self) -> list[argparse.Action]:
        """Return the options that the help lists."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]


def make_parser() -> _OptParser:
    """Return the parser of all options of `ceras-opt`, except the flags of passes."""
    prog = shown_name("ceras-opt")
    parser = _OptParser(
        prog=prog,
        usage=f'{prog} [IN.mlir | IN.onnx | -] [--PASS[="opt=value ..."]]... [options]',
        description="Run passes over a module, in the order of the command line.",
        epilog=EXIT_STATUS,
        allow_abbrev=False,
        add_help=False,
    )
    parser.examples = (
        "model.onnx --fuse -o fused.mlir",
        "fused.mlir --quantize --print-ir-after-all",
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", metavar="IN", help="IR text or an ONNX model; - is stdin")
    add_output(parser, "OUT", "write here instead of stdout", default="-")
    pipeline = add(
        "-p",
        "--passes",
        "--pass-pipeline",
        dest="pipeline",
        action="append",
        type=parse_pipeline,
        default=[],
        metavar="PIPELINE",
        help='run these passes, for example "canonicalize,my-pass{x=1 y=2}", directly or inside '
        "builtin.module(...); may be repeated and mixed with pass flags",
    )
    usual(pipeline)
    add(
        _RUN[:-1],
        dest="pipeline",
        action="append",
        type=_flag_request,
        help=argparse.SUPPRESS,
    )
    target = "print this: mlir (default) or a text target"
    usual(add("-t", "--target", default="mlir", help=target))
    add_plugins(parser.add_argument_group("plugins"))
    group = parser.add_argument_group("input")
    add_options(group, PartOptions)
    add_options(group, ShapeOptions)
    add_limits(parser)
    add_options(parser.add_argument_group("output"), PrintOptions)
    add_options(parser.add_argument_group("which pass is wrong"), BisectionOptions)
    group = parser.add_argument_group("internal errors")
    group.add_argument(
        "--verify-each",
        type=_boolean,
        default=True,
        metavar="{true,false}",
        help="verify the IR after each pass (default: true)",
    )
    for flag in WITHOUT_EFFECT:
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    group.add_argument(
        "--disable-verify",
        "--mlir-disable-verify",
        dest="verify_each",
        action="store_false",
        help="do not verify the IR, at your own risk",
    )
    add_options(group, ReproducerOptions)
    group = parser.add_argument_group("information")
    add_help(group)
    add_options(group, InformationOptions)
    add_version(group)
    return parser


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text.lower() in ("true", "1")
