"""
The parsers of all commands with everything that any command line may have: the options of every
target, and a flag for every pass.
"""

import argparse
from importlib import import_module

from ceras_ir.command.entry_point import Command
from ceras_ir.command.tool_parser import UsageParser, commands
from ceras_ir.driver.target_options import compiling_targets
from ceras_ir.pipeline.context import load_universe
from ceras_ir.support.options import flag_of, help_of, options_of

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
