"""
What is wrong with a text: the parser's errors and the verifier's, of every part of it.

What an editor shows of a name: the docstring of an operation, an attribute, a type or a pass.

What stands at a place of a text, and where it is defined: by its letters alone, so that a text
that does not parse can be read too.

Run the network of a text as it is, at whatever level it is, on one made-up input.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.universe import Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.data.samples import Array
from ceras_ir.data.synthetic_samples import synthetic_samples
from ceras_ir.dialects.mem import arena_of
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.parsing import parse_text, parts_of
from ceras_ir.pipeline.verification import find_invalid
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.options import docstring


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


def explanation(ctx: Context, universe: Universe, text: str) -> str | None:
    """The docstring of what is called `text`, as Markdown; None where nothing is."""
    kind = "operation"
    found: type | None = ctx.get_optional_op(text)
    if found is None and text[:1] in "!#":
        kind = "type" if text[0] == "!" else "attribute"
        lookup = ctx.get_optional_type if kind == "type" else ctx.get_optional_attr
        found = lookup(text[1:])
    if found is None and text.removeprefix("--") in universe.all_passes:
        kind, found = "pass", universe.all_passes[text.removeprefix("--")]()
    if found is None:
        return None
    return f"**{text}** ({kind})\n\n{docstring(found) or 'It has no description.'}"


def operation_names(universe: Universe, prefix: str) -> Iterator[str]:
    """Operations of the dialect that `prefix` names, for completion."""
    name, dot, _ = prefix.partition(".")
    if dot and name in universe.all_dialects:
        for op in universe.all_dialects[name]().operations:
            yield op.name


WORD = re.compile(
    r"%[\w$.-]+(?:\#\d+)?|@[\w$.-]+|\^[\w$.-]+|[!#]?[A-Za-z_][\w$-]*(?:\.[A-Za-z_][\w$-]*)*"
)
"""A value, a symbol, a block, or a name with dots: of an operation, a type, an attribute."""

FUNCTION = re.compile(r"^\s*(?:func\.func|\"func\.func\")")
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')


@dataclass(frozen=True)
class Word:
    """Characters [start, end) of a line; both count from 0."""

    text: str
    line: int
    start: int
    end: int


def word_at(text: str, line: int, column: int) -> Word | None:
    """The word at a place, or just before it."""
    lines = text.split("\n")
    if not 0 <= line < len(lines):
        return None
    for match in WORD.finditer(lines[line]):
        if match.start() <= column <= match.end():
            return Word(match[0], line, match.start(), match.end())
    return None


def definition(text: str, word: Word) -> Word | None:
    """Where a value, block or symbol is defined: a value at the nearest place above."""
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    if name.startswith("@"):
        pattern = re.compile(
            rf"(?:func\.func|module)\s+(?:private\s+|public\s+)?({re.escape(name)})\b"
        )
        return _first(pattern, text.split("\n"), range(len(lines)))
    if name.startswith("^"):
        pattern = re.compile(rf"^\s*({re.escape(name)})\b[^,)]*[:(]")
        return _first(pattern, lines, range(len(lines)))
    if not name.startswith("%"):
        return None
    start, end = _function_around(lines, word.line)
    made = re.compile(rf"(?:^|,|\bfor\b)\s*({re.escape(name)})(?::\d+)?\s*(?=[,=])(?=[^()]*=)")
    argument = re.compile(rf"[(,]\s*({re.escape(name)})\s*:\s")
    for at in (*range(word.line, start - 1, -1), *range(word.line + 1, end)):
        for pattern in (made, argument):
            if (found := _first(pattern, lines, range(at, at + 1))) is not None:
                return found
    return None


def uses(text: str, word: Word) -> Iterator[Word]:
    """Every place in the function where a value stands."""
    lines = [_blanked(each) for each in text.split("\n")]
    name, _, _ = word.text.partition("#")
    start, end = _function_around(lines, word.line)
    for at in range(start, end):
        for match in WORD.finditer(lines[at]):
            if match[0].partition("#")[0] == name:
                yield Word(match[0], at, match.start(), match.end())


def functions(text: str) -> Iterator[int]:
    """The lines on which functions called `main` begin."""
    for number, line in enumerate(text.split("\n")):
        if FUNCTION.match(line) and re.search(r"@main\b|sym_name\s*=\s*\"main\"", line):
            yield number


def _blanked(line: str) -> str:
    """The line with strings and comments as spaces."""
    return STRING_OR_COMMENT.sub(lambda match: " " * len(match[0]), line)


def _function_around(lines: list[str], line: int) -> tuple[int, int]:
    """Lines [start, end) from the function's beginning to the next one's."""
    begins = [i for i, each in enumerate(lines) if FUNCTION.match(each) or "// -----" in each]
    start = max((i for i in begins if i <= line), default=0)
    return start, min((i for i in begins if i > line), default=len(lines))


def _first(pattern: re.Pattern[str], lines: list[str], numbers: range) -> Word | None:
    for number in numbers:
        if (match := pattern.search(lines[number])) is not None:
            return Word(match[1], number, match.start(1), match.end(1))
    return None


SEED = 0


def run_level(module: ModuleOp) -> str:
    """What comes out, in a line per output; memory is used as it was planned."""
    main = main_function(module)
    (sample,) = synthetic_samples(main, 1, SEED)
    start = perf_counter()
    runner = run_in_arena if arena_of(main) is not None else run
    outputs = runner(module, sample)
    taken = 1000 * (perf_counter() - start)
    lines = [f"{name}: {_summary(array)}" for name, array in outputs.items()]
    return "\n".join([*lines, f"one made-up input (seed {SEED}), interpreted in {taken:.0f} ms"])


def _summary(array: Array) -> str:
    shape = "x".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return f"{array.dtype}[{shape}], empty"
    low, high, mean = (float(f(array)) for f in (_least, _greatest, _mean))
    return f"{array.dtype}[{shape}] in [{low:.6g}, {high:.6g}], mean {mean:.6g}"


def _least(array: Array) -> float:
    return float(array.astype(float).min())


def _greatest(array: Array) -> float:
    return float(array.astype(float).max())


def _mean(array: Array) -> float:
    return float(array.astype(float).mean())
