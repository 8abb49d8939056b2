"""Implement rare modes of `ceras-opt`: `--help-pass`, bisection, commands of the user, errors."""

import dataclasses
import hashlib
import json
import re
import shlex
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from ceras_ir.command.exit_status import Diagnostic, NodeDiagnostic, SourceError
from ceras_ir.pipeline.instrumentation import Watch
from ceras_ir.pipeline.pass_options import PassTable, spell, type_name
from ceras_ir.pipeline.printing import print_module
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.options import docstring, field_docs
from ceras_ir.support.plugin_modules import plain
from ceras_ir.support.programs import finish

PLACEHOLDER = "{input}"
"""The placeholder of the file in a command."""


class OutOfTimeError(Exception):
    """The time limit for all runs of the command is exceeded."""


class ShellCommand:
    """
    Runs a shell command of the user on candidate files, for example to reduce a file to a small one
    that still fails.

    The command contains `{input}` in place of the file. The status is 0 if the candidate is
    interesting: it still shows the behavior that the user looks for. Results are cached by content.
    """

    def __init__(
        self,
        command: str,
        suffix: str,
        *,
        timeout: float,
        limit: float | None,
        option: str = "--test",
    ):
        """
        Create a command. The candidates have the extension `suffix`. A run is ended after `timeout`
        seconds, and all runs together after `limit` seconds, unless `limit` is `None`. `option` is
        the flag that error messages name.
        """
        if PLACEHOLDER not in command:
            raise UsageError(f"the command of {option} must have {PLACEHOLDER}, got '{command}'")
        self._command, self._timeout = command, timeout
        self._end = None if limit is None else time.monotonic() + limit
        self._folder = TemporaryDirectory(prefix="ceras-reduce-")
        self._file = Path(self._folder.name) / f"candidate{suffix}"
        self._known: dict[bytes, int | None] = {}
        self.runs = 0

    def status(self, data: bytes) -> int | None:
        """
        Run the command on a file with the content `data`, and return the exit status; `None` after
        a timeout. Raise `OutOfTimeError` if the limit for all runs is exceeded.
        """
        key = hashlib.sha256(data).digest()
        if key not in self._known:
            # The first run decides whether reduction can start.
            if self.runs and self._end is not None and time.monotonic() > self._end:
                raise OutOfTimeError
            self._file.write_bytes(data)
            self._known[key] = self._run()
        return self._known[key]

    def _run(self) -> int | None:
        self.runs += 1
        command = self._command.replace(PLACEHOLDER, shlex.quote(str(self._file)))
        try:
            return finish(["/bin/sh", "-c", command], self._timeout, is_quiet=True).returncode
        except TimeoutExpired:
            return None


MAX_COMMAND_SECONDS = 600.0
"""The time limit of a command."""


def by_command(command: str) -> Watch:
    """
    Return a function that checks the IR after each pass: it runs the shell command `command` on it.
    A status other than 0, or a timeout, is a failure of the pass.
    """
    runs = ShellCommand(
        command, ".mlir", timeout=MAX_COMMAND_SECONDS, limit=None, option="--bisect-test"
    )

    def watch(_: Context, module: ModuleOp) -> str | None:
        stream = StringIO()
        print_module(module, stream, debuginfo=True)
        status = runs.status(stream.getvalue().encode())
        if status == 0:
            return None
        ended = "takes too long" if status is None else f"ends with status {status}"
        return f"creates IR on which the command {ended}"

    return watch


_EXPECTATION = re.compile(
    r"//\s*expected-(?P<severity>error|warning|remark|note)"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)
_NODE_LINE = re.compile(r" at line (\d+)$")


@dataclass(frozen=True)
class Expectation:
    """
    A diagnostic that a test declares in the text by a comment such as
    `// expected-error@+1 {{text}}`.
    """

    severity: str
    text: str
    written: int
    """The number of the line that contains the comment."""
    line: int | None
    """The line of the expected diagnostic, if the location is known."""


def parse_expectations(text: str) -> list[Expectation]:
    """Return the diagnostics that comments in `text` declare. Line numbers start at 1."""
    lines = text.split("\n")
    comments = {n for n, line in enumerate(lines, 1) if _EXPECTATION.match(line.strip())}

    def resolve(place: str | None, written: int) -> int | None:
        match place:
            case None:
                return written
            case "unknown":
                return None
            case "above" | "below":
                step = -1 if place == "above" else 1
                line = written + step
                while line in comments:
                    line += step
                return line
            case _:
                return written + int(place)

    return [
        Expectation(m["severity"], m["text"], number, resolve(m["place"], number))
        for number, line in enumerate(lines, 1)
        for m in _EXPECTATION.finditer(line)
    ]


def diagnostics_of(error: InputError) -> list[Diagnostic]:
    """Split `error` into single diagnostics, with their line numbers if known."""
    if isinstance(error, SourceError):
        return list(error.diagnostics)
    if not error.findings:
        return [Diagnostic(error.message)]
    # `node_name` states the line of parsed operations.
    return [
        NodeDiagnostic(
            f.message,
            line=int(m[1]) if (m := _NODE_LINE.search(f.node)) else None,
            node=f.node,
            operator=f.operator,
        )
        for f in error.findings
    ]


def check(error: InputError | None, text: str, file: str) -> list[str]:
    """
    Compare `error` with the diagnostics that comments in `text` declare. Return a line for each
    diagnostic that is unexpected or missing; [] if they agree. `file` is the name in these lines.
    """
    expected = parse_expectations(text)
    problems = list[str]()
    for diagnostic in diagnostics_of(error) if error else ():
        for expectation in expected:
            if (
                expectation.severity == diagnostic.severity
                and expectation.line == diagnostic.line
                and expectation.text in diagnostic.message
            ):
                expected.remove(expectation)
                break
        else:
            place = f"{file}:{diagnostic.line}:{diagnostic.column or 1}"
            if diagnostic.line is None:
                place = f"{file}"
            message = diagnostic.message.strip()
            # A note explains its error; the expectation is optional.
            if diagnostic.severity != "note":
                problems.append(
                    f"{place}: error: unexpected {diagnostic.severity}: {message}"
                    + (" (expect it @unknown)" if diagnostic.line is None else "")
                )
    problems += [
        f"{file}:{e.written}:1: error: expected {e.severity} '{e.text}' was not produced"
        for e in expected
    ]
    return problems


BENEFITS = Path(__file__).with_name("pass_benefits.json")


@dataclass(frozen=True)
class Benefit:
    """
    The measured benefit of a step (a pass or a rule of a pass): the loss of a network if the step
    is omitted.
    """

    changed: int
    """The number of builds in which the step changes the IR."""
    builds: int
    network: str
    """
    The network with the loss, of `benchmarks/benefit_networks.py`; empty if no network has a loss.
    """
    setting: str
    """The target for which it was compiled, with `float` for a float network."""
    figure: str
    """The loss, in words."""

    def text(self) -> str:
        """Return the benefit as a sentence."""
        counted = f"Changes {self.changed} of {self.builds} builds."
        if not self.figure:
            return counted
        return f"{counted} Network `{self.network}` for {self.setting}: {self.figure}."

    def to_json(self) -> dict[str, int | str]:
        return asdict(self)


@cache
def benefits() -> dict[str, Benefit]:
    """Return the benefit of each step; a step is named `pass` or `pass{rule}`."""
    content = json.loads(BENEFITS.read_text(encoding="utf-8"))
    return {step: Benefit(**entry) for step, entry in content.items()}


INDENT = " " * 6


def summary(cls: type[ModulePass]) -> str:
    """Return the first sentence of the docstring of a pass, without the period."""
    first = " ".join(docstring(cls).split("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def list_passes(passes: PassTable) -> str:
    """
    Return the text of `--list-passes`: the passes of this project and of plugins with their first
    sentences, then the names of xDSL's passes.
    """
    upstream = get_all_passes().keys() & passes.keys()
    own = sorted(passes.keys() - upstream)
    width = max((len(name) for name in own), default=0)
    lines = [f"{name:{width}}  {summary(passes[name]())}".rstrip() for name in own]
    return "\n".join([*lines, "", "and xDSL's own:", *(f"  {name}" for name in sorted(upstream))])


def rules_of(cls: type[ModulePass]) -> tuple[ModulePass, ...]:
    """Return the rules of the pass `cls`, in order; () if it is not made of rules."""
    from ceras_ir.transforms.pass_kinds import RulePass

    return cls().table() if issubclass(cls, RulePass) else ()


def _benefit(step: str) -> list[str]:
    if (known := benefits().get(step)) is None:
        return []
    return ["", fill(f"Benefit: {known.text()}", 100, initial_indent="  ", subsequent_indent="  ")]


def _description(cls: type[ModulePass]) -> str:
    """
    Return the docstring of a pass, or of the module, or else a sentence about the missing
    description.
    """
    written = docstring(cls)
    if not written or written.startswith(f"{cls.__name__}("):  # The signature of a dataclass.
        written = docstring(sys.modules[cls.__module__])
    if written:
        return written
    source = "xDSL pass" if cls.__module__.startswith("xdsl.") else "pass"
    return f"{source} without description (class {cls.__name__} of {plain(cls.__module__)})"


def describe_pass(cls: type[ModulePass]) -> str:
    """Return the help of a pass: description, benefit, rules, and options with types."""
    lines = [f"--{cls.name}", ""]
    lines += [f"  {line}".rstrip() for line in _description(cls).split("\n")]
    lines += _benefit(cls.name)
    for rule in rules_of(cls):
        lines += ["", f"Rule {rule.name}:"]
        lines += [f"  {line}".rstrip() for line in docstring(type(rule)).split("\n")]
        lines += _benefit(f"{cls.name}{{{rule.name}}}")
    types, meanings = get_type_hints(cls), field_docs(cls)
    options = [f for f in dataclasses.fields(cls) if f.init and f.name != "name"]
    if options:
        lines += ["", "Options:"]
    for field in options:
        text = f"  {field.name.replace('_', '-')}=<{type_name(types[field.name])}>"
        if field.default is not dataclasses.MISSING:
            text += f"  (default: {spell(field.default)})"
        lines.append(text)
        if meaning := meanings.get(field.name):
            lines.append(fill(meaning, 100, initial_indent=INDENT, subsequent_indent=INDENT))
    return "\n".join(lines)
