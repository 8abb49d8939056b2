"""What a command does before anything is imported that takes time."""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module


def start(tool: str, module: str, argv: Sequence[str] | None) -> int:
    """
    Run the `main` of `module`; an interrupt while that is imported is one line, as later.

    OpenBLAS, which numpy multiplies with, has one thread unless the environment says how many.
    """
    # Products here are small and many, and its threads wait for the next one by spinning.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        main: Callable[[Sequence[str] | None], int] = import_module(module).main
    except KeyboardInterrupt:
        print(f"{tool}: interrupted", file=sys.stderr)
        return 130
    # What was imported stays: the collector need not look at it again.
    gc.freeze()
    return main(argv)
