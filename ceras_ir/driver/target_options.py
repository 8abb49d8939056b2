"""
Define the options for targets. The options of a target are the fields of its class.

A tool lists the options of the targets on its command line. An option of any other target is
refused with the name of that target.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import (
    ArgumentContainer,
    ToolParser,
    add_options,
    early_value,
    values_of,
)
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.options import docstring, flag_of, options_of
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import (
    all_targets,
    board_owners,
    find_target,
    refuse_foreign_board,
    unknown_target,
    with_board,
)

BOARD = "board"

TargetClass = type[Target]


def compiling_targets() -> list[TargetClass]:
    """Return the targets that write files, in the order of names."""
    return [target for target in all_targets() if target.compiles]


def reference_target() -> TargetClass:
    """Return the interpreter, the target that writes no files and defines the results."""
    return next(target for target in all_targets() if not target.compiles)


def native_target() -> TargetClass:
    """Return the target with compiled networks that run on this machine at full speed."""
    return next(target for target in all_targets() if target.runs_natively)


def model_target() -> TargetClass:
    """Return the target that writes a network as a model file."""
    return next(target for target in all_targets() if target.writes_models)


def named_target(
    argv: Sequence[str], known: Sequence[TargetClass] | None = None
) -> TargetClass | None:
    """
    Return the target after `--target` in `argv`, or `None`. Raise a `UsageError` if it is not in
    `known` (default: all targets). It is needed before the parser is made, because it decides the
    options.
    """
    name = early_value(argv, "--target")
    if name is None:
        return None
    if known is not None and name not in (names := [cls.name for cls in known]):
        raise unknown_target(name, names)
    return find_target(name)


def add_target(
    group: ArgumentContainer,
    targets: Sequence[TargetClass],
    text: str,
    *,
    required: bool = False,
) -> None:
    """Add the option `--target` with the choices `targets` and the help `text`."""
    choices = [cls.name for cls in targets]
    usual(group.add_argument("--target", choices=choices, required=required, help=text))


def described_targets(targets: Sequence[TargetClass]) -> str:
    """Return the end of the help: the name and description of each target."""
    lines = [f"{cls.name}: {docstring(cls).partition(chr(10))[0]}" for cls in targets]
    return "targets: " + " ".join(lines)


def add_target_options(parser: ToolParser, targets: Sequence[TargetClass]) -> None:
    """Add the options that the targets declare. An option of several targets is added once."""
    groups = parser.add_argument_group(
        f"target {', '.join(cls.name for cls in targets)}",
        "; ".join(f"{cls.name}: {cls.arithmetic}" for cls in targets if cls.compiles) or None,
    )
    added = set[str]()
    for cls in targets:
        own = {each.name for each, _ in options_of(cls, parser.tool)} - added
        add_options(groups, cls, own, tool=parser.tool, sparse=True)
        added |= own
    parser.explanations.insert(0, lambda flag: _for_another(flag, targets, parser.tool))


def _for_another(flag: str, targets: Sequence[TargetClass], tool: str) -> str | None:
    """
    Return the message about the option `flag` if only targets other than `targets` have it; `None`
    if no target has it. `tool` is the command.
    """
    owners = [
        cls.name
        for cls in compiling_targets()
        if flag in [flag_of(field) for field, _ in options_of(cls, tool)]
    ]
    if not owners:
        return None
    what = f"target{'s' * (len(owners) > 1)} {', '.join(owners)}"
    chosen = ", ".join(cls.name for cls in targets)
    return f"{flag} is an option of {what}" + (f", not {chosen}" if chosen else "")


def target_of(cls: TargetClass, arguments: argparse.Namespace) -> Target:
    """Return an instance of `cls` with the options in parsed `arguments`."""
    values = values_of(cls, arguments, arguments.tool)
    if isinstance(board := values.get(BOARD), str):
        refuse_foreign_board(cls, board)
    return replace(cls(), **values)


def targets_of(classes: Sequence[TargetClass], arguments: argparse.Namespace) -> list[Target]:
    """
    Return an instance of each class with the options in parsed `arguments`. A board applies to the
    targets that have it. Raise an error if no target has it.
    """
    board: str | None = getattr(arguments, BOARD, None)
    other_arguments = argparse.Namespace(**{k: v for k, v in vars(arguments).items() if k != BOARD})
    targets = [target_of(cls, other_arguments) for cls in classes]
    if board is None:
        return targets
    found = [_on_board(target, board) for target in targets]
    errors = [each for each in found if isinstance(each, InputError)]
    if len(errors) == len(classes):
        if len(errors) == 1 or not board.isidentifier() or board_owners(board):
            raise errors[0]
        known = "; ".join(f"{t.name}: {', '.join(t.boards()) or 'none'}" for t in targets)
        raise UsageError(f"no target knows the board '{board}'; boards are {known}")
    pairs = zip(targets, found, strict=True)
    return [old if isinstance(new, InputError) else new for old, new in pairs]


def _on_board(target: Target, board: str) -> Target | InputError:
    try:
        return with_board(target, board)
    except InputError as error:
        return error
