"""
`ceras-completion`: scripts that complete command lines in shells.

The parsers of all commands have everything that any command line may have: the options of every
target, and a flag for every pass.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from ceras_ir.command.entry_point import Command, commands
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser, UsageParser
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.context import load_universe
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import flag_of, help_of, options_of

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

    for name, parser in all_parsers().items():
        # It escapes what shells expand, and no percent signs of argparse.
        print(shtab.complete(parser, arguments.shell, root_prefix=name.replace("-", "_")))
    return 0


FILE = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""What completes names of files; shtab's own."""


def all_parsers() -> dict[str, UsageParser]:
    """By the names of the commands."""
    return {point.name: parser_of(point.load()) for point in commands().values()}


def parser_of(command: Command) -> UsageParser:
    """Return the parser of a command."""
    parser: UsageParser = import_module(command.module).make_parser()
    parser.prog = command.name
    if command.name == "ceras-opt":
        for name in sorted(load_universe().all_passes):
            _add(parser, f"--{name}", "a pass")
    for target in compiling_targets():
        for field, _ in options_of(target, command.name):
            if "--target" in parser.flags or "--targets" in parser.flags:
                _add(parser, flag_of(field), help_of(target, field))
    parser.document()
    for action in parser.listed_actions:
        if action.choices is None and action.nargs != 0:
            action.complete = FILE  # pyright: ignore[reportAttributeAccessIssue]
        if action.help is not None:
            action.help = action.help.replace("%(default)s", str(action.default))
    return parser


def _add(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    assert isinstance(parser, UsageParser)
    if flag not in parser.flags:
        parser.add_argument(flag, help=text.replace("%", "%%"))
