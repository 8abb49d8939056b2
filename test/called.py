"""Commands called in this process: `call(main, arguments)`."""

import contextlib
import io
import shlex
from collections.abc import Callable, Sequence

Main = Callable[[Sequence[str]], int]


NO_INTEGERS = "has no quantized form: it remains float"
"""Said of `--int16` where only the passes know what is quantized."""


class Refused(Exception):
    """The command says that it does not support this."""


class Wrong(Exception):
    """What no command may do or say."""


def call(main: Main, *arguments: str) -> str:
    """What a command writes to stdout; Refused as said below, Wrong at any other status but 0."""
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
