"""
The C functions of `runtime/`, and elementwise functions as C expressions.

Functions are templates whose `@NAME@` holes are filled with types. A template has an `#include` of
each function that it calls. Functions of floats are defined by the interpreter (`float_text`), so
expressions compute the same operations in the same order. A model contains the functions that its
layers use, a single time each, and each function follows the functions that it calls.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ceras_ir.dialects.graph import Binary, Compare, FunctionAttr
from ceras_ir.interpreters.float_text import Text, expression, float_literal, float_text


@cache
def _template(name: str) -> Text:
    text = float_text(name) or Text.read(files("ceras_ir.backends.c") / "runtime", name)
    assert text is not None, name
    return text


def filled(text: str, holes: Mapping[str, object]) -> str:
    """`text` with a value in place of every `@NAME@`."""
    for hole, value in holes.items():
        text = text.replace(f"@{hole}@", str(value))
    return text


class Kernels:
    """The functions of one model, in the order they were asked for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, **holes: str) -> str:
        """Ask for a function; returns what it is called."""
        template = _template(name)
        for needed in template.needs:
            self.use(needed)
        text = filled(template.body, holes)
        assert "@" not in text, text
        suffix = holes.get("NAME")
        return self._keep(f"{name}_{suffix}" if suffix else name, text)

    def add(self, function: str, text: str, condition: str) -> str:
        """Add a function made for this model under a condition; returns what it is called."""
        return self._keep(function, f"#if {condition}\n{text}#endif\n")

    def _keep(self, function: str, text: str) -> str:
        """Store the text of a function unless it is present; return the name."""
        known = self._texts.setdefault(function, text)
        assert known == text, function
        return function

    @property
    def text(self) -> str:
        whole = "\n".join(self._texts.values())
        return re.sub(r"^static (?!const )", "MODEL_STATIC ", whole, flags=re.MULTILINE)


def apply(kernels: Kernels, function: FunctionAttr, x: str) -> str:
    """`function(x)` for a float expression `x` without side effects."""
    needs, text = expression(function.kind, x, [float_literal(v) for v in function.values])
    for name in needs:
        kernels.use(name)
    if (affine := function.affine) is None:
        return text
    scale, offset = (float_literal(v) for v in affine)
    return f"(({text}) * {scale} + {offset})"


SYMBOLS = {
    Binary.ADD: "+",
    Binary.SUB: "-",
    Binary.MUL: "*",
    Binary.DIV: "/",
    Binary.AND: "&",
    Binary.OR: "|",
    Binary.XOR: "^",
}

RELATIONS = {Compare.EQUAL: "==", Compare.LESS: "<", Compare.LESS_OR_EQUAL: "<="}


def combine(kernels: Kernels, kind: Binary, ctype: str, a: str, b: str) -> str:
    """`a kind b` for two expressions of `ctype` without side effects, as a `ctype`."""
    if kind in (Binary.MIN, Binary.MAX):
        sign = "<" if kind is Binary.MIN else ">"
        # What is not a number wins: no comparison with the other one holds.
        nan = f" || {a} != {a}" if ctype == "float" else ""
        return f"({a} {sign} {b}{nan} ? {a} : {b})"
    if ctype == "float":
        if kind is Binary.POW:
            return f"{kernels.use('power_f32')}({a}, {b})"
        return f"{a} {SYMBOLS[kind]} {b}"
    return f"({ctype}){_wrapping(kernels, kind, ctype, a, b)}"


def _wrapping(kernels: Kernels, kind: Binary, ctype: str, a: str, b: str) -> str:
    """In 64 unsigned bits, which overflow as documented."""
    left, right = f"(uint64_t){a}", f"(uint64_t){b}"
    is_unsigned = ctype.startswith("u")
    match kind:
        case Binary.DIV:
            divide = kernels.use("divide_u64" if is_unsigned else "divide_i64")
            return f"{divide}({left}, {right})"
        case Binary.POW:
            name = kernels.use("power_u64")
            name = name if is_unsigned else kernels.use("power_i64")
            return f"{name}({left}, {right})"
        case _:
            return f"({left} {SYMBOLS[kind]} {right})"
