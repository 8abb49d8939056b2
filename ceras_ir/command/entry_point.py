"""What a command does before anything is imported that takes time."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def start(tool: str, module: str, argv: Sequence[str] | None) -> int:
    """Run the `main` of `module`; an interrupt while that is imported is one line, as later."""
    try:
        main: Callable[[Sequence[str] | None], int] = import_module(module).main
    except KeyboardInterrupt:
        print(f"{tool}: interrupted", file=sys.stderr)
        return 130
    return main(argv)
