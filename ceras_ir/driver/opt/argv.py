"""
The command line of `ceras-opt`: every pass is a flag, and passes run in the order written.

`argparse` knows neither: `--fuse in.mlir` would take the file as the flag's value, and flags
of different names lose their order. So each pass flag is first rewritten to one entry of a
hidden option that `-p` shares its list with.
"""

import argparse
from collections.abc import Iterable, Sequence

from ceras_ir.command.tool_parser import UsageParser
from ceras_ir.driver.model_options import add_shapes
from ceras_ir.pipeline.context import add_plugins
from ceras_ir.pipeline.pass_options import PassRequest, parse_pipeline
from ceras_ir.pipeline.reproducer import arguments_of
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.universe import refuse_removed

_RUN = "--run-pass="


class OptArguments(argparse.Namespace):
    """What the command line says, after defaults."""

    input: str
    output: str
    target: str
    pipeline: list[list[PassRequest]]
    split_input_file: bool
    verify_diagnostics: bool
    allow_unregistered_dialect: bool
    batch: int
    shape: list[tuple[str, tuple[int, ...]]]
    print_ir_before_all: bool
    print_ir_before: list[str]
    print_ir_after_all: bool
    print_ir_after: list[str]
    print_ir_diff: bool
    verify_each: bool
    pass_statistics: bool
    bisect_passes: bool
    bisect_inputs: str | None
    bisect_samples: int | None
    bisect_tolerance: float | None
    bisect_test: str | None
    reproducer: str | None
    run_reproducer: str | None
    time_passes: bool
    elide_constants: bool
    print_debuginfo: bool
    strip_names: bool
    print_op_generic: bool
    list_passes: bool
    help: bool
    help_pass: str | None
    version: bool

    @property
    def requests(self) -> list[PassRequest]:
        """All passes to run, in order."""
        return [request for requests in self.pipeline for request in requests]


def replayed(argv: Sequence[str]) -> list[str]:
    """`argv` with what the file of `--run-reproducer` says in its place."""
    parser = UsageParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run-reproducer")
    found, rest = parser.parse_known_args(argv, OptArguments())
    if found.run_reproducer is None:
        return rest
    # It fails again without being written again.
    return [*arguments_of(found.run_reproducer), "--reproducer=", *rest]


def parse_arguments(argv: Sequence[str], passes: Iterable[str]) -> OptArguments:
    """`argv` read with a flag for each name in `passes`."""
    names = frozenset(passes)
    parser = make_parser()
    arguments, unknown = parser.parse_known_args(
        [_rewrite(argument, names) for argument in argv], OptArguments()
    )
    if unknown:
        flag = unknown[0].partition("=")[0]
        if not flag.startswith("-"):
            raise UsageError(f"more than one input file: '{flag}'")
        refuse_removed(flag.removeprefix("--"))
        options = [o for action in parser.visible_actions() for o in action.option_strings]
        known = [*options, *(f"--{name}" for name in names)]
        raise UsageError(f"unknown option '{flag}'{did_you_mean(flag, known)}")
    return arguments


def _rewrite(argument: str, passes: frozenset[str]) -> str:
    flag, _, options = argument.partition("=")
    if flag.startswith("--") and flag[2:] in passes:
        return f"{_RUN}{flag[2:]} {options}"
    return argument


def _flag_request(text: str) -> list[PassRequest]:
    name, _, options = text.partition(" ")
    # A shell leaves the braces of mlir-opt's --pass="{x=1}" spelling in place.
    if options.startswith("{") and options.endswith("}"):
        options = options[1:-1]
    return [PassRequest(name, options)]


class _OptParser(UsageParser):
    def visible_actions(self) -> list[argparse.Action]:
        """The options that the help shows."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]


def make_parser() -> _OptParser:
    """The parser of everything but pass flags."""
    parser = _OptParser(
        prog="ceras-opt",
        usage='ceras-opt [IN.mlir | IN.onnx | -] [--PASS[="opt=value ..."]]... [options]',
        description="Run passes over a module, in the order of the command line.",
        epilog="Passes: --list-passes names them, --help-pass=PASS describes one. Exit status: "
        "0 done, 1 bad input, 2 wrong usage, 3 unsupported input, 70 an internal error.",
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", metavar="IN", help="IR text or an ONNX model; - is stdin")
    add("-o", dest="output", default="-", metavar="OUT", help="write here instead of stdout")
    add(
        "-p",
        "--passes",
        "--pass-pipeline",
        dest="pipeline",
        action="append",
        type=parse_pipeline,
        default=[],
        metavar="PIPELINE",
        help='run these passes, for example "canonicalize,my-pass{x=1 y=2}", alone or inside of '
        "builtin.module(...); may be repeated and mixed with pass flags",
    )
    add(
        _RUN[:-1],
        dest="pipeline",
        action="append",
        type=_flag_request,
        help=argparse.SUPPRESS,
    )
    add("-t", "--target", default="mlir", help="print this: mlir (default) or a text target")
    group = parser.add_argument_group("plugins")
    add_plugins(group)
    group = parser.add_argument_group("input")
    switches = {
        "--split-input-file": "process the parts between '// -----' lines one by one",
        "--verify-diagnostics": "check '// expected-error@+1 {{...}}' comments instead of failing",
        "--allow-unregistered-dialect": "accept operations of unknown dialects",
    }
    for name, text in switches.items():
        group.add_argument(name, action="store_true", help=text)
    add_shapes(group)
    group = parser.add_argument_group("output")
    # Each with MLIR's spelling, where that is another.
    shown = {
        ("--print-ir-before-all", "--mlir-print-ir-before-all"): "print the IR before each pass to "
        "stderr",
        ("--print-ir-after-all", "--mlir-print-ir-after-all"): "print the IR after each pass to "
        "stderr",
        ("--print-ir-diff",): "print what each pass changes to stderr, as a unified diff",
        ("--time-passes", "--mlir-timing"): "print the time of each pass to stderr",
        ("--pass-statistics", "--mlir-pass-statistics"): "print statistics of each pass to "
        "stderr: operations made, erased and changed, time, and growth of peak memory",
        ("--elide-constants",): "print large constants as dense_resource<__elided__>",
        ("--print-debuginfo", "--mlir-print-debuginfo"): "print all locations; without it, the "
        "names of layers that the model or the text gives",
        ("--strip-names",): "do not print names of layers",
    }
    for flags, text in shown.items():
        group.add_argument(*flags, action="store_true", help=text)
    for when in ("before", "after"):
        group.add_argument(
            f"--print-ir-{when}",
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS",
            help=f"print the IR {when} this pass to stderr; may be repeated",
        )
    group.add_argument(
        "--print-op-generic",
        "--mlir-print-op-generic",
        action="store_true",
        help="print operations in the generic form",
    )
    group = parser.add_argument_group("which pass is wrong")
    group.add_argument(
        "--bisect-passes",
        action="store_true",
        help="run the network behind every pass, and stop at the first pass that changes the "
        "outputs: with a diagnostic, status 1 and a reproducer",
    )
    group.add_argument(
        "--bisect-inputs",
        metavar="IN.npz",
        help="compare on these inputs (default: synthetic, seeded)",
    )
    group.add_argument(
        "--bisect-samples",
        type=_at_least_one,
        metavar="N",
        help="compare on so many inputs (default: 2)",
    )
    group.add_argument(
        "--bisect-tolerance",
        type=float,
        metavar="DB",
        help="accept this signal-to-noise ratio, for passes that may change values, such as "
        "those of quantization (default: integers exactly, floats within 1e-4 of the largest)",
    )
    group.add_argument(
        "--bisect-test",
        metavar="'CMD {input}'",
        help="stop instead at the first pass after which this shell command on the IR does not "
        "end with status 0",
    )
    group = parser.add_argument_group("internal errors")
    group.add_argument(
        "--verify-each",
        type=_boolean,
        default=True,
        metavar="{true,false}",
        help="verify the IR behind every pass (default: true)",
    )
    group.add_argument(
        "--disable-verify",
        "--mlir-disable-verify",
        dest="verify_each",
        action="store_false",
        help="do not verify the IR, at your own risk",
    )
    group.add_argument(
        "--reproducer",
        "--mlir-pass-pipeline-crash-reproducer",
        metavar="FILE",
        help="write the IR before a pass that crashes or makes invalid IR here, with the pass "
        "(default: ceras-crash-PASS.mlir)",
    )
    group.add_argument(
        "--run-reproducer",
        metavar="FILE",
        help="run the pass of a reproducer on its IR; other options apply",
    )
    group = parser.add_argument_group("information")
    group.add_argument("-h", "--help", action="store_true", help="print this")
    group.add_argument("--list-passes", action="store_true", help="list all passes")
    group.add_argument("--help-pass", metavar="PASS", help="describe a pass and its options")
    group.add_argument("--version", action="store_true", help="print versions")
    return parser


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return text.lower() in ("true", "1")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)
