"""
Options of targets on the command line, made from the fields of their classes.

A tool lists the options of the targets that its command line names, and of no others: what is
for another target is refused with its name.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from ceras_ir.command.tool_parser import ToolParser, add_options, early_value, values_of
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.options import docstring, flag_of, options_of
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, find_target, unknown_target, with_board

BOARD = "board"

TargetClass = type[Target]


def compiling_targets() -> list[TargetClass]:
    """Those that make files, in the order of names."""
    return [target for target in all_targets() if target.compiles]


def reference_target() -> TargetClass:
    """The interpreter, which makes none."""
    return next(target for target in all_targets() if not target.compiles)


def native_target() -> TargetClass:
    """The one whose networks run on this machine itself."""
    return next(target for target in all_targets() if target.runs_natively)


def model_target() -> TargetClass:
    """The one that writes a network as a model again."""
    return next(target for target in all_targets() if target.writes_models)


def named_target(
    argv: Sequence[str], known: Sequence[TargetClass] | None = None
) -> TargetClass | None:
    """
    The target that `argv` names, if any, of those `known` to the tool: it must be known to know
    the options.
    """
    name = early_value(argv, "--target")
    if name is None:
        return None
    if known is not None and name not in (names := [cls.name for cls in known]):
        raise unknown_target(name, names)
    return find_target(name)


def described_targets(targets: Sequence[TargetClass]) -> str:
    """A line per target for the end of the help."""
    lines = [f"{cls.name}: {docstring(cls).partition(chr(10))[0]}" for cls in targets]
    return "targets: " + " ".join(lines)


def add_target_options(parser: ToolParser, targets: Sequence[TargetClass]) -> None:
    """The options of `targets`; one that several have is listed once."""
    groups = parser.add_argument_group(
        f"target {', '.join(cls.name for cls in targets)}",
        "; ".join(f"{cls.name}: {cls.arithmetic}" for cls in targets if cls.compiles) or None,
    )
    seen = set[str]()
    for cls in targets:
        own = {each.name for each, _ in options_of(cls, parser.prog)} - seen
        add_options(groups, cls, own, tool=parser.prog, sparse=True)
        seen |= own
    parser.explain = lambda flag: _for_another(flag, targets, parser.prog)


def _for_another(flag: str, targets: Sequence[TargetClass], tool: str) -> str | None:
    """Why an option is unknown that some other target has."""
    owners = [
        cls.name
        for cls in compiling_targets()
        if flag in [flag_of(field) for field, _ in options_of(cls, tool)]
    ]
    if not owners:
        return None
    what = f"target{'s' * (len(owners) > 1)} {', '.join(owners)}"
    chosen = ", ".join(cls.name for cls in targets)
    return f"{flag} is for {what}" + (f", not {chosen}" if chosen else "")


def target_of(cls: TargetClass, arguments: argparse.Namespace) -> Target:
    """The target with the options that the command line gives it."""
    return replace(cls(), **values_of(cls, arguments, arguments.tool))


def targets_of(classes: Sequence[TargetClass], arguments: argparse.Namespace) -> list[Target]:
    """
    Several targets with their options. A board goes to all that know it; where none does, the
    error lists what they know, or is the only target's own.
    """
    board: str | None = getattr(arguments, BOARD, None)
    others = argparse.Namespace(**{k: v for k, v in vars(arguments).items() if k != BOARD})
    targets = [target_of(cls, others) for cls in classes]
    if board is None:
        return targets
    found = [_on_board(target, board) for target in targets]
    errors = [each for each in found if isinstance(each, InputError)]
    if len(errors) == len(classes):
        if len(errors) == 1 or not board.isidentifier():
            raise errors[0]
        known = "; ".join(f"{t.name}: {', '.join(t.boards()) or 'none'}" for t in targets)
        raise InputError(f"no target knows the board '{board}'; boards are {known}")
    pairs = zip(targets, found, strict=True)
    return [old if isinstance(new, InputError) else new for old, new in pairs]


def _on_board(target: Target, board: str) -> Target | InputError:
    try:
        return with_board(target, board)
    except InputError as error:
        return error
