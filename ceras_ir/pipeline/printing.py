"""
Print modules quickly, and write reproducers. A reproducer is a file with the IR before a pass that
failed, and with the command that the user started.

A constant of more than `MAX_LISTED` elements is `dense<"0x...">` (both xDSL and mlir-opt accept
it), in hex from its bytes. If elided, it is `dense_resource<__elided__>`, as in mlir-opt, so the
text can be parsed. A constant of equal elements is `dense<x>` for any size.

Printing the IR before each pass would cost more than compiling. A `Checkpoint` therefore keeps a
copy and the list of passes since the copy. If a pass fails, the passes before it run again on the
copy, which results in the IR before the failure.
"""

import os
import shlex
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from ceras_ir.command.output_files import first_unused, open_output
from ceras_ir.command.tool_parser import versions
from ceras_ir.pipeline import context
from ceras_ir.pipeline.pass_options import spell_pipeline
from ceras_ir.support.diagnostics import InputError, UsageError, node_names
from ceras_ir.support.user_files import regular

MAX_LISTED = 16
"""The largest number of elements that are printed one by one."""

CONSTANT_OPERATION = "graph.constant"
"""The operation whose location names no layer. The dialect is not imported for this check."""

ELIDED = "__elided__"
"""The resource in place of an elided constant, as in mlir-opt."""


class ModulePrinter(Printer):
    """
    The printer of xDSL, except that large constants are printed in hex, or elided. Only the public
    methods for an operation and an attribute are overridden.
    """

    def __init__(
        self, stream: IO[str], *, generic: bool, debuginfo: bool, elide: int | None, names: bool
    ) -> None:
        super().__init__(stream, print_generic_format=generic, print_debuginfo=debuginfo)
        self.elide = elide
        self.names = names

    def print_op(self, op: Operation) -> None:
        super().print_op(op)
        named = self.names and not self.print_debuginfo and op.name != CONSTANT_OPERATION
        if named and op.results and node_names(op):
            self.print_string(" ")
            self.print_attribute(op.location)

    def print_attribute(self, attribute: Attribute) -> None:
        if isa(attribute, DenseIntOrFPElementsAttr) and (
            _exceeds(attribute, MAX_LISTED) or self._is_elided(attribute)
        ):
            self._print_large(attribute)
            return
        if self.elide is not None:
            # The dialect imports numpy, which slows the start of commands.
            from ceras_ir.dialects.sparse import Encoded

            if isinstance(attribute, Encoded):
                self.print_string(f"dense_resource<{ELIDED}> : ")
                self.print_attribute(attribute.type)
                return
        super().print_attribute(attribute)

    def _is_elided(self, constant: DenseIntOrFPElementsAttr) -> bool:
        return self.elide is not None and _exceeds(constant, self.elide)

    def _print_large(self, constant: DenseIntOrFPElementsAttr) -> None:
        data = constant.data.data
        element = constant.get_element_type()
        size = element.compile_time_size
        if data[size:] == data[:-size]:
            splat = DenseIntOrFPElementsAttr(TensorType(element, [1]), BytesAttr(data[:size]))
            splat.print_without_type(self)
        elif self._is_elided(constant):
            self.print_string(f"dense_resource<{ELIDED}>")
        else:
            self.print_string(f'dense<"0x{data.hex().upper()}">')
        self.print_string(" : ")
        self.print_attribute(constant.type)


def _exceeds(constant: DenseIntOrFPElementsAttr, limit: int) -> bool:
    """
    Return whether `constant` has more than `limit` elements that fill bytes. mlir-opt packs
    booleans, so they are never printed in hex; each element of 2 to 7 bits has a byte.
    """
    element = constant.get_element_type()
    return (
        isinstance(element, IntegerType | AnyFloat)
        and 1 < element.bitwidth <= 64
        and len(constant) > limit
    )


def print_module(
    module: ModuleOp,
    stream: IO[str],
    *,
    elide: int | None = None,
    names: bool = False,
    debuginfo: bool = False,
    generic: bool = False,
) -> None:
    """
    Write `module` to `stream`, with a newline at the end. `elide` replaces constants of more than
    this number of elements by a placeholder. `names` prints the names of layers in the model,
    `debuginfo` all locations, and `generic` the generic form of operations.
    """
    printer = ModulePrinter(stream, generic=generic, debuginfo=debuginfo, elide=elide, names=names)
    printer.print_op(module)
    printer.print_metadata([Builtin])
    stream.write("\n")


SECONDS_PER_COPY = 10
"""The maximum time of passes since the last copy, which may have to run again."""

PIPELINE_COMMENT, OPTIONS_COMMENT = "// pipeline: ", "// options: "
ALLOWED = ("--load-", "--allow-unregistered-dialect")


class Checkpoint:
    """
    A copy of a module, and the passes since the copy, so that the IR before a failed pass can be
    computed again.
    """

    def __init__(self) -> None:
        self._module: ModuleOp | None = None
        self._copy = ModuleOp([])
        self._since = list[ModulePass]()
        self._copied_at = 0.0

    def before(self, module: ModuleOp, pass_: ModulePass) -> None:
        """Record that `pass_` starts on `module`; copy the module first if the last copy is old."""
        now = time.perf_counter()
        if module is not self._module or now - self._copied_at > SECONDS_PER_COPY:
            self._module, self._copy, self._since = module, module.clone(), []
            self._copied_at = now
        self._since.append(pass_)

    def save(self, ctx: Context, path: str | None, level: str | None) -> str:
        """
        Write a reproducer of the last pass (the IR before it, and the command). The file is `path`
        or, if that is empty or `None`, a new file in the current folder, or else in the folder for
        temporary files. `level` is named in the file. Return a text with the command that runs it.
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
        # The passes are not deterministic: the reproducer has all of them.
        except Exception:
            return
        self._copy, self._since = module, [last]

    def _write(self, ctx: Context, level: str | None, stream: IO[str]) -> None:

        tool, *arguments = sys.argv
        tool = Path(tool).name
        options = [
            *(context.LOADED_PLUGINS.get() or ()),
            *["--allow-unregistered-dialect"] * ctx.allow_unregistered,
        ]
        lines = [
            "// Replay with: ceras-opt --run-reproducer FILE",
            f"// version: {versions(tool)}",
            f"// command: {shlex.join([tool, *arguments])}",
            *([f"// level: {level}"] if level else []),
            OPTIONS_COMMENT + shlex.join(options),
            PIPELINE_COMMENT + spell_pipeline(self._since, _absolute),
        ]
        stream.writelines(" ".join(line.splitlines()) + "\n" for line in lines)
        print_module(self._copy, stream, debuginfo=True)


def arguments_of(path: str) -> list[str]:
    """
    Return the arguments for `ceras-opt` that the reproducer at `path` contains. A file with other
    options than plugins raises `UsageError`.
    """
    options, pipeline = "", None
    with open(regular(path), encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.startswith("//"):
                break
            if line.startswith(OPTIONS_COMMENT):
                options = line.removeprefix(OPTIONS_COMMENT)
            elif line.startswith(PIPELINE_COMMENT):
                pipeline = line.removeprefix(PIPELINE_COMMENT).strip()
    if pipeline is None:
        raise UsageError(f"{path}: not a reproducer: no line begins with '{PIPELINE_COMMENT}'")
    words = shlex.split(options)
    # The file may be foreign: it may select plugins, but no output and no other input.
    if strange := [word for word in words if not word.startswith(ALLOWED)]:
        raise UsageError(f"{path}: a reproducer has no option '{strange[0]}'")
    return [path, *words, "-p", pipeline]


def _absolute(key: str, value: object) -> object:
    if not isinstance(value, str):
        return value

    def absolute(name: str) -> str:
        path, mark, options = name.partition("?")
        # A folder may have the name of a board or target.
        known = os.path.exists(path) if key == "calibration" else os.path.isfile(path)
        return f"{os.path.abspath(path)}{mark}{options}" if known else name

    return ",".join(map(absolute, value.split(",")))
