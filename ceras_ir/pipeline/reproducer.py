"""
Reproducers: the IR before a pass that failed, and the command line that runs it again.

Printing the IR before every pass would cost more than compiling. So a `Checkpoint` keeps a copy
and the passes since, from which that IR is made once more when one of them fails.
"""

import os
import shlex
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.command.output_files import first_unused, open_output
from ceras_ir.command.tool_parser import versions
from ceras_ir.pipeline import context
from ceras_ir.pipeline.pass_options import spell_pipeline
from ceras_ir.support.diagnostics import InputError, UsageError

SECONDS_PER_COPY = 10
"""How long passes run before a new copy is taken: so long at most do they run once more."""

PIPELINE, OPTIONS = "// pipeline: ", "// options: "
ALLOWED = ("--load-", "--allow-unregistered-dialect")


class Checkpoint:
    """A copy of a module, and the passes that have been started since it was taken."""

    def __init__(self) -> None:
        self._module: ModuleOp | None = None
        self._copy = ModuleOp([])
        self._since = list[ModulePass]()
        self._taken = 0.0

    def before(self, module: ModuleOp, pass_: ModulePass) -> None:
        """Note that `pass_` starts on `module`; copy it first if the last copy is old."""
        now = time.perf_counter()
        if module is not self._module or now - self._taken > SECONDS_PER_COPY:
            self._module, self._copy, self._since = module, module.clone(), []
            self._taken = now
        self._since.append(pass_)

    def save(self, ctx: Context, path: str | None, level: str | None) -> str:
        """
        Write a reproducer of the pass that was started last to `path`, or to a new file in the
        current folder or else in the one for temporary files. Returns how to run it.
        """
        from tempfile import gettempdir

        name = f"ceras-crash-{self._since[-1].name}"
        self._localize(ctx)
        problem = ""
        folders = ("", gettempdir())
        for place in [path] if path else [first_unused(f, name, "mlir") for f in folders]:
            try:
                with open_output(place) as stream:
                    self._write(ctx, level, stream)
            except InputError as error:
                problem = error.lines(place)[0]
                continue
            return (
                f"reproducer: {place}: replay with: ceras-opt --run-reproducer {shlex.quote(place)}"
            )
        return f"no reproducer: {problem}"

    def _localize(self, ctx: Context) -> None:
        """Bring the copy to where the last pass starts, by running those before it again."""
        module, (*before, last) = self._copy.clone(), self._since
        try:
            with (
                open(os.devnull, "w") as nowhere,
                redirect_stderr(nowhere),
                redirect_stdout(nowhere),
            ):
                for pass_ in before:
                    pass_.apply(ctx, module)
                module.verify()
        # A pass that does not do the same once more: all of them are in the reproducer.
        except Exception:
            return
        self._copy, self._since = module, [last]

    def _write(self, ctx: Context, level: str | None, stream: IO[str]) -> None:
        from ceras_ir.pipeline.printing import print_module

        tool, *arguments = sys.argv
        tool = Path(tool).name
        options = [
            *(context.LOADED.get() or ()),
            *["--allow-unregistered-dialect"] * ctx.allow_unregistered,
        ]
        lines = [
            "// Replay with: ceras-opt --run-reproducer FILE",
            f"// version: {versions(tool)}",
            f"// command: {shlex.join([tool, *arguments])}",
            *([f"// level: {level}"] if level else []),
            OPTIONS + shlex.join(options),
            PIPELINE + spell_pipeline(self._since, _absolute),
        ]
        stream.writelines(" ".join(line.splitlines()) + "\n" for line in lines)
        print_module(self._copy, stream, debuginfo=True)


def arguments_of(path: str) -> list[str]:
    """The command line of `ceras-opt` that the reproducer at `path` asks for."""
    options, pipeline = "", None
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.startswith("//"):
                break
            if line.startswith(OPTIONS):
                options = line.removeprefix(OPTIONS)
            elif line.startswith(PIPELINE):
                pipeline = line.removeprefix(PIPELINE).strip()
    if pipeline is None:
        raise UsageError(f"{path}: it has no line that begins with '{PIPELINE}'")
    words = shlex.split(options)
    # The file may come from anywhere: it chooses context, but neither output nor other input.
    if strange := [word for word in words if not word.startswith(ALLOWED)]:
        raise UsageError(f"{path}: a reproducer has no option '{strange[0]}'")
    return [path, *words, "-p", pipeline]


def _absolute(key: str, value: object) -> object:
    """`value` with the files that it names, if any, found from any folder."""
    if not isinstance(value, str):
        return value

    def absolute(name: str) -> str:
        path, mark, options = name.partition("?")
        # A folder may be called as a board or target is.
        known = os.path.exists(path) if key == "calibration" else os.path.isfile(path)
        return f"{os.path.abspath(path)}{mark}{options}" if known else name

    return ",".join(map(absolute, value.split(",")))
