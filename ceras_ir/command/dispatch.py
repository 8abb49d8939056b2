"""
Run a command by its name: `ceras compile MODEL.onnx ...` is `ceras-compile MODEL.onnx ...`.

The list of commands and messages about the name import no command. Usage and messages of the
command have the words that the user has typed.

This module is imported before an interrupt can be caught, so it imports almost nothing at its top.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = (
    "compile model.onnx --target c --calibrate data.npz -o model_c",
    "run model_c --inputs test.npz --outputs answers.npz",
)

HELP_FLAGS = ("-h", "--help")


def listing(program: str) -> str:
    """Return the text that `program` prints without a command: all commands with their purposes."""
    from ceras_ir.command.entry_point import GROUPS, Command, commands

    known: dict[str, Command] = {}
    for name, point in commands().items():
        command: object = point.load()
        assert isinstance(command, Command)
        known[name] = command
    lines = [f"usage: {program} COMMAND ..."]
    for group in GROUPS:
        if listed := [f"  {n:12}{c.purpose}" for n, c in known.items() if c.group == group]:
            lines += ["", f"{group}:", *listed]
    lines += ["", "examples:", *(f"  {program} {example}" for example in EXAMPLES), ""]
    return "\n".join([*lines, f"'{program} COMMAND --help' prints the options of a command."])


def main(argv: Sequence[str] | None = None, program: str = "ceras") -> int:
    """
    Run the first word of `argv` (default: the command line) as a command, and return the exit
    status. `program` is the start of the command line.
    """
    try:
        return _dispatch(argv, program)
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130


def _dispatch(argv: Sequence[str] | None, program: str) -> int:
    from importlib.metadata import PackageNotFoundError

    from ceras_ir.command.entry_point import (
        COMMAND_PREFIX,
        commands,
        repeat_swallowed_interrupts,
        shown_as,
    )

    repeat_swallowed_interrupts()
    name, *rest = (sys.argv[1:] if argv is None else argv) or ["help"]
    try:
        known = commands()
    except PackageNotFoundError:
        return _not_installed(program, "this package")
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("help", *HELP_FLAGS):
        return _print(listing(program))
    if name == "--version":
        from ceras_ir.command.tool_parser import versions

        return _print(versions(program))
    found = known.get(name.removeprefix(COMMAND_PREFIX))
    if found is None:
        from ceras_ir.support.diagnostics import did_you_mean

        what = "option" if name.startswith("-") else "command"
        near = did_you_mean(name, ["--help", "--version"] if what == "option" else known)
        print(f"{program}: error: no {what} '{name}'{near}", file=sys.stderr)
        print(f"{program}: try '{program} --help'", file=sys.stderr)
        return 2
    sys.argv = [found.name, *rest]
    with shown_as(found.name, f"{program} {found.name.removeprefix(COMMAND_PREFIX)}"):
        try:
            # A command that is called with arguments is not at the end of its process.
            return int(found.load()(None if argv is None else rest))
        except ModuleNotFoundError as error:
            # A folder of sources can have metadata without an environment.
            if error.name not in ("numpy", "xdsl"):
                raise
            return _not_installed(program, error.name)


def _print(text: str) -> int:
    """
    Print to stdout and return the exit status: 0, or 141 if the reader of a pipe, such as `| head`,
    has exited.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        from ceras_ir.command.entry_point import discard

        discard(sys.stdout)
        return 141
    return 0


def _not_installed(program: str, name: str) -> int:
    message = f"{name} is not installed; run 'pip install .' in the folder of the package"
    print(f"{program}: error: {message}", file=sys.stderr)
    return 1
