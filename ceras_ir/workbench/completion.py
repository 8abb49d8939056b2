"""
Implement `ceras-completion`: print a script that completes command lines in a shell.

The command `ceras` has all commands as subcommands. The parsers include all possible options, such
as the options of targets and a flag per pass.
"""

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from ceras_ir.command.entry_point import COMMAND_PREFIX, Command, commands
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser, UsageParser
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.context import load_universe
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extras import install_command
from ceras_ir.support.options import flag_of, help_of, options_of

SHELLS = ("bash", "zsh", "tcsh")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-completion", _complete, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-completion`."""
    parser = ToolParser(
        "ceras-completion",
        description="Print a script that completes options, passes, targets and file names of all "
        'commands. Run eval "$(ceras-completion bash)" in the shell, or add this line to the '
        "startup file of the shell. Needs the extra `editor`.",
        epilog="Exit status: 0 success, 2 wrong usage.",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="{bash,zsh,tcsh}", help="the shell")
    return parser


def _complete(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if find_spec("shtab") is None:
        raise UsageError(f"needs shtab: {install_command('editor')}")
    import shtab

    for name, parser in all_parsers().items():
        # shtab escapes the special characters of shells.
        print(shtab.complete(parser, arguments.shell, root_prefix=name.replace("-", "_")))
    return 0


FILE_COMPLETION = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""The functions of shtab that complete file names."""


def all_parsers() -> dict[str, UsageParser]:
    """Return the parser of each command by name, with all possible options."""
    found: list[Command] = [point.load() for point in commands().values()]
    parsers = {command.name: parser_of(command) for command in found}
    return {"ceras": _single_command(found, parsers), **parsers}


def _single_command(known: Sequence[Command], parsers: Mapping[str, UsageParser]) -> UsageParser:
    """
    Return the parser of the command `ceras`, in which each of the commands `known` is a subcommand
    with the options in `parsers`.
    """
    single = ToolParser("ceras")
    subcommands = single.add_subparsers(metavar="COMMAND", parser_class=UsageParser)
    names = [command.name.removeprefix(COMMAND_PREFIX) for command in known]
    for name, command in zip(names, known, strict=True):
        subcommands.add_parser(name, help=command.purpose).add_actions_of(parsers[command.name])
    described = subcommands.add_parser("help", help="print the options of a command")
    described.add_argument("command", choices=names, nargs="?")
    return single


def parser_of(command: Command) -> UsageParser:
    """
    Return the parser of `command` with all possible options: the options of all targets and, for
    `ceras-opt`, a flag for each pass.
    """
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
            action.complete = FILE_COMPLETION  # pyright: ignore[reportAttributeAccessIssue]
        if action.help is not None:
            action.help = action.help.replace("%(default)s", str(action.default))
    return parser


def _add(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    assert isinstance(parser, UsageParser)
    if flag not in parser.flags:
        parser.add_argument(flag, help=text.replace("%", "%%"))
