"""What is wrong with a text: the parser's errors and the verifier's, of every part of it."""

import re
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.pipeline.parsing import parse_text, parts_of
from ceras_ir.pipeline.verification import find_invalid
from ceras_ir.support.diagnostics import InputError


def diagnose(ctx: Context, text: str, file: str) -> list[Diagnostic]:
    """Everything that is wrong, each where it is as far as that is known."""
    found: list[Diagnostic] = []
    for part in parts_of(text):
        try:
            found += find_invalid(parse_text(ctx, part, file))
        except InputError as error:
            found += (_at_use(each, part) for each in diagnostics_of(error, file))
    return found


UNDEFINED = re.compile(r"values used but not defined: \[(%[\w$.-]+)")


def _at_use(found: Diagnostic, text: str) -> Diagnostic:
    """An undefined value's error where it is used: the parser notices at the end."""
    if (match := UNDEFINED.match(found.message)) is None:
        return found
    for number, line in enumerate(text.split("\n"), 1):
        if (use := re.search(rf"{re.escape(match[1])}(?![\w$.-])", line)) is not None:
            return replace(found, line=number, column=use.start() + 1)
    return found


def diagnostics_of(error: InputError, file: str) -> list[Diagnostic]:
    """An error as diagnostics; one without a place is at the beginning."""
    if isinstance(error, SourceError):
        return list(error.diagnostics)
    return [Diagnostic("\n".join(error.lines(file)), file)]


def valid_part(ctx: Context, text: str, file: str, line: int) -> ModuleOp:
    """The part around a line (from 0), parsed and verified; an `InputError` if it is not valid."""
    chosen = ""
    for part in parts_of(text):
        chosen = part
        if part.count("\n") >= line:
            break
    module = parse_text(ctx, chosen, file)
    if found := find_invalid(module):
        raise SourceError(found)
    return module
