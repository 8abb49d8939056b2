"""
`--verify-diagnostics`: the diagnostics of a run against the comments that expect them.

As in mlir-opt: `// expected-error@+1 {{part of the message}}`, with `@-1`, `@above`,
`@below`, `@unknown` or nothing (this line), and `expected-note` likewise. Each diagnostic
must be expected and each expectation met.
"""

import re
from dataclasses import dataclass

from ceras_ir.command.exit_status import Diagnostic, NodeDiagnostic, SourceError
from ceras_ir.support.diagnostics import InputError

_EXPECTATION = re.compile(
    r"//\s*expected-(?P<severity>error|warning|remark|note)"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*?)\}\}"
)
_NODE_LINE = re.compile(r" at line (\d+)$")


@dataclass(frozen=True)
class Expectation:
    """One `expected-...` comment."""

    severity: str
    text: str
    written: int
    """The line of the comment."""
    line: int | None
    """The line it speaks of, or None for an unknown location."""


def parse_expectations(text: str) -> list[Expectation]:
    """The expectations in `text`, whose first line is line 1."""
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
    """`error` taken apart into single diagnostics with their lines as far as known."""
    if isinstance(error, SourceError):
        return list(error.diagnostics)
    if not error.findings:
        return [Diagnostic(error.message)]
    # `node_name` gives the line of operations that were parsed.
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
    """What is unexpected or missing, one line each; nothing if all is as `text` says."""
    open_ = parse_expectations(text)
    problems = list[str]()
    for diagnostic in diagnostics_of(error) if error else ():
        for expectation in open_:
            if (
                expectation.severity == diagnostic.severity
                and expectation.line == diagnostic.line
                and expectation.text in diagnostic.message
            ):
                open_.remove(expectation)
                break
        else:
            place = f"{file}:{diagnostic.line}:{diagnostic.column or 1}"
            if diagnostic.line is None:
                place = f"{file}"
            message = diagnostic.message.strip()
            # A note explains its error: expecting it is optional.
            if diagnostic.severity != "note":
                problems.append(
                    f"{place}: error: unexpected {diagnostic.severity}: {message}"
                    + (" (expect it @unknown)" if diagnostic.line is None else "")
                )
    problems += [
        f"{file}:{e.written}:1: error: expected {e.severity} '{e.text}' was not produced"
        for e in open_
    ]
    return problems
