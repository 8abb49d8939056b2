"""List the usual options of targets in the help of a command line without a target."""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import Field
from functools import partial

from ceras_ir.command.help_parser import document_later
from ceras_ir.command.tool_parser import ToolParser, UsageParser, add_options
from ceras_ir.driver.target_options import TargetClass, compiling_targets
from ceras_ir.support.options import flag_of, help_of, options_of

OPTIONS_OF_TARGETS = "options of targets"
"""The title of the group."""


def list_target_options(parser: ToolParser) -> None:
    """
    List the usual options of all targets in the help of `parser`. The parser does not accept them
    without `--target`.
    """
    parser.further_options = partial(_usual_options, parser.tool)


def _usual_options(tool: str) -> tuple[str, str, list[argparse.Action]]:
    owners = defaultdict[str, list[tuple[TargetClass, Field[object]]]](list)
    for cls in compiling_targets():
        for each, described in options_of(cls, tool):
            if described.usual:
                owners[flag_of(each)].append((cls, each))
    listing = UsageParser(add_help=False)
    for declarations in owners.values():
        cls, each = declarations[0]
        add_options(listing, cls, [each.name], tool=tool)
        document_later(listing.listed_actions[-1], partial(_help, declarations))
    description = "With --target, --help-all lists all options of the target."
    return OPTIONS_OF_TARGETS, description, listing.listed_actions


def _help(declarations: Sequence[tuple[TargetClass, Field[object]]]) -> str:
    # The shortest text has no default that only some targets have.
    text = min((help_of(cls, each) for cls, each in declarations), key=len)
    return f"{text} (target {', '.join(cls.name for cls, _ in declarations)})"
