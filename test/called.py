"""Call commands in this process: `call(main, arguments)`."""

import contextlib
import io
import shlex
from collections.abc import Callable, Sequence

Main = Callable[[Sequence[str]], int]


NO_INTEGERS = "has no quantized form: it remains float"
"""The error of `--int16` if only the passes know which layers are quantized."""


class Refused(Exception):
    """The error that the command does not support the input."""


class Wrong(Exception):
    """The error that a command violates the contract of all commands."""


def call(main: Main, *arguments: str) -> str:
    """Return stdout; raise Refused for the two statuses below, and Wrong for another error."""
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        status = main(arguments)
    words = said.getvalue()
    if (status == 3 and "unsupported" in words) or (status == 2 and NO_INTEGERS in words):
        raise Refused(words)
    if status != 0:
        command = f"{main.__module__} {shlex.join(arguments)}"
        raise Wrong(f"{command}\nexit status {status}\n{out.getvalue()}{words}")
    return out.getvalue()
