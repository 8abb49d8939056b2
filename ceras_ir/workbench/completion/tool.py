"""`ceras-completion`: a script that completes the options of all commands in a shell."""

from collections.abc import Sequence
from importlib.util import find_spec

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.support.diagnostics import UsageError

SHELLS = ("bash", "zsh", "tcsh")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-completion", _complete, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-completion`."""
    parser = ToolParser(
        "ceras-completion",
        description="Print a script that completes options, passes, targets and file names of all "
        'commands: eval "$(ceras-completion bash)" in a shell, or in a file that it reads at '
        "start. Needs the extra `editor`.",
        epilog="Exit status: 0 done, 2 wrong usage.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="{bash,zsh,tcsh}", help="which shell")
    return parser


def _complete(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if find_spec("shtab") is None:
        raise UsageError("needs shtab: pip install 'ceras-ir[editor]'")
    import shtab

    from ceras_ir.workbench.completion.parsers import all_parsers

    for name, parser in all_parsers().items():
        # It escapes what shells expand, and no percent signs of argparse.
        print(shtab.complete(parser, arguments.shell, root_prefix=name.replace("-", "_")))
    return 0
