"""
Run a command: `python -m ceras_ir compile MODEL.onnx ...` is `ceras-compile`.

Without a command, list the commands. This also works if the folder of scripts is not on PATH.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError

from ceras_ir.command.entry_point import PREFIX, Command, commands


def listing() -> str:
    """Return the list of commands with their purposes."""
    lines: list[str] = []
    for name, point in commands().items():
        command: object = point.load()
        assert isinstance(command, Command)
        lines.append(f"  {name:11}{command.purpose}.")
    return "\n".join(["usage: python -m ceras_ir COMMAND ...", "", "commands:", *lines])


def main(argv: Sequence[str]) -> int:
    """Run the first word of `argv` as a command, and return the exit status."""
    try:
        known = commands()
    except PackageNotFoundError:
        return _not_installed("this package")
    if not argv or argv[0] in ("-h", "--help"):
        print(listing())
        return 0
    if argv[0] == "--version":
        from ceras_ir.command.tool_parser import versions

        print(versions("ceras_ir"))
        return 0
    name, *rest = argv
    found = known.get(name.removeprefix(PREFIX))
    if found is None:
        from ceras_ir.support.diagnostics import did_you_mean

        near = did_you_mean(name, known)
        print(f"ceras_ir: error: no command '{name}'{near}", file=sys.stderr)
        print("ceras_ir: try 'python -m ceras_ir --help'", file=sys.stderr)
        return 2
    sys.argv = [found.name, *rest]
    try:
        return int(found.load()())
    except ModuleNotFoundError as error:
        # A folder of sources can have metadata without an environment.
        if error.name not in ("numpy", "xdsl"):
            raise
        return _not_installed(error.name)


def _not_installed(name: str) -> int:
    message = f"{name} is not installed; run 'pip install .' in the folder of the package"
    print(f"ceras_ir: error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
