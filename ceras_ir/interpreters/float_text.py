"""
Print the functions of `float_functions` in C, with the operations of the numpy code.

`runtime/NAME_f32.c` is the function NAME of `x` and the parameters, for all users of C or C++. It
begins with an `#include` of each function that it calls. `@NAME@` and `@NAME[0]@` are constants of
`float_functions`, and a line with `@NAME[1:]@` is repeated for each. A `#define` is expanded at the
call, with the parameters `p0` and `p1`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import inf, isinf, isnan

import numpy as np

from ceras_ir.dialects.graph.attributes import Function
from ceras_ir.interpreters import float_functions

INCLUDE_LINE = re.compile(r'#include "(\w+)\.c"\n')
DEFINE = re.compile(r"#define \w+\([\w, ]+\) (.+)\n")
CONSTANT_PLACEHOLDER = re.compile(r"@([A-Z]\w+)(?:\[(\d+)(:?)\])?@")


@dataclass(frozen=True)
class Text:
    """The text of a C function, and the names of the functions that it calls."""

    needs: tuple[str, ...]
    """The called functions, in the order of definition."""
    body: str

    @classmethod
    def read(cls, folder: Traversable, name: str) -> "Text | None":
        """
        Return the text of the function `name` from the file `name.c` in `folder`, or `None` if
        there is no such file.
        """
        file = folder / f"{name}.c"
        if not file.is_file():
            return None
        text = file.read_text("ascii")
        return cls(tuple(INCLUDE_LINE.findall(text)), INCLUDE_LINE.sub("", text))

    def with_constants(self) -> "Text":
        """Return the text with the constants of `float_functions` filled in."""
        return Text(self.needs, "".join(map(_filled, self.body.splitlines(keepends=True))))


@cache
def float_text(name: str) -> Text | None:
    """
    Return the C text of a function of `runtime/` with constants filled in, or `None` for an unknown
    function. `name` includes `_f32`, such as `tanh_f32`.
    """
    text = Text.read(files("ceras_ir.interpreters") / "runtime", name)
    return text and text.with_constants()


def strict_floats() -> str:
    """
    Return C preprocessor lines that stop a build if compiler flags change float results, such as
    `-ffast-math`.
    """
    return (files("ceras_ir.interpreters") / "runtime" / "strict_floats.h").read_text("ascii")


def expression(function: Function, x: str, parameters: Sequence[str]) -> tuple[Sequence[str], str]:
    """
    Return the names of the C functions that must be defined, and a C expression that applies
    `function` with `parameters` to the expression `x`, which must have no side effects.
    """
    name = f"{function}_f32"
    text = float_text(name)
    assert text is not None, f"no text for {name}"
    if (define := DEFINE.fullmatch(text.body)) is None:
        return (name,), f"{name}({', '.join((x, *parameters))})"
    values = {"x": x, **{f"p{i}": p for i, p in enumerate(parameters)}}
    return text.needs, re.sub(r"\b(x|p\d)\b", lambda found: values[found[1]], define[1])


def needed(names: Sequence[str]) -> Iterator[str]:
    """
    Yield `names` and the C functions that they call, each after the functions that it calls. Names
    can be repeated.
    """
    for name in names:
        text = float_text(name)
        assert text is not None, f"no text for {name}"
        yield from (*needed(text.needs), name)


def float_literal(value: float) -> str:
    """Return the C literal of a float32 number, such as `0.5f`. Nine digits are exact."""
    narrow = float(np.float32(value))
    assert not isnan(narrow)
    if isinf(narrow):
        return "INFINITY" if narrow == inf else "-INFINITY"
    text = f"{narrow:.9g}"
    return f"{text}f" if any(c in text for c in ".e") else f"{text}.0f"


def _filled(line: str) -> str:
    found = CONSTANT_PLACEHOLDER.finditer(line)
    if (hole := next((h for h in found if h[1] in vars(float_functions)), None)) is None:
        return line
    constant: object = vars(float_functions)[hole[1]]
    values = np.atleast_1d(np.array(constant, np.float32))
    if hole[2] is not None:
        first = int(hole[2])
        values = values[first:] if hole[3] else values[first : first + 1]
    is_compared = line[: hole.start()].endswith("< ")
    texts = [float_literal(float(v)) for v in values]
    texts = [f"({t})" if t.startswith("-") and not is_compared else t for t in texts]
    return "".join(_filled(line.replace(hole[0], text)) for text in texts)
