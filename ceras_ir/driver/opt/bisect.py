"""Which pass is wrong: the first one after which a command fails."""

from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.shell_command import Command
from ceras_ir.pipeline.instrumentation import Watch
from ceras_ir.pipeline.printing import print_module

SECONDS = 600.0
"""That a command may take."""


def by_command(command: str) -> Watch:
    """Have the shell run `command` on the IR behind a pass."""
    runs = Command(command, ".mlir", timeout=SECONDS, limit=None, option="--bisect-test")

    def watch(_: Context, module: ModuleOp) -> str | None:
        stream = StringIO()
        print_module(module, stream, debuginfo=True)
        status = runs.status(stream.getvalue().encode())
        if status == 0:
            return None
        ended = "takes too long" if status is None else f"ends with status {status}"
        return f"makes IR on which the command {ended}"

    return watch
