"""
Load the C functions of `runtime/`, and print elementwise functions as C expressions.

Functions are templates with `@NAME@` holes for types. A template has an `#include` for each
function that it calls. The interpreter (`float_text`) defines the functions of floats, so
expressions compute the same operations in the same order. A model contains each function that a
layer uses a single time, after the functions that it calls.
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
    """Return `text` with each `@NAME@` replaced by a value."""
    for hole, value in holes.items():
        text = text.replace(f"@{hole}@", str(value))
    return text


class Kernels:
    """The C functions of a model, in the order of the first request."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, **holes: str) -> str:
        """Add a function of `runtime/` and return the name in C."""
        template = _template(name)
        for needed in template.needs:
            self.use(needed)
        text = filled(template.body, holes)
        assert "@" not in text, text
        suffix = holes.get("NAME")
        return self._keep(f"{name}_{suffix}" if suffix else name, text)

    def add(self, function: str, text: str, condition: str) -> str:
        """Add a generated function under a preprocessor condition and return the name in C."""
        return self._keep(function, f"#if {condition}\n{text}#endif\n")

    def _keep(self, function: str, text: str) -> str:
        known = self._texts.setdefault(function, text)
        assert known == text, function
        return function

    @property
    def text(self) -> str:
        whole = "\n".join(self._texts.values())
        return re.sub(r"^static (?!const )", "MODEL_STATIC ", whole, flags=re.MULTILINE)


def apply(kernels: Kernels, function: FunctionAttr | None, x: str) -> str:
    """Return `function(x)` for a float expression `x` without side effects, or `x`."""
    if function is None:
        return x
    needs, text = expression(function.kind, x, [float_literal(v) for v in function.values])
    for name in needs:
        kernels.use(name)
    if (affine := function.affine) is None:
        return text
    scale, offset = (float_literal(v) for v in affine)
    return f"(({text}) * {scale} + {offset})"


_OPERATORS = (
    Binary.ADD, Binary.SUB, Binary.MUL, Binary.DIV, Binary.AND, Binary.OR, Binary.XOR
)  # fmt: skip
SYMBOLS: dict[Binary, str] = dict(zip(_OPERATORS, "+-*/&|^", strict=True))

RELATIONS = {Compare.EQUAL: "==", Compare.LESS: "<", Compare.LESS_OR_EQUAL: "<="}


def combine(kernels: Kernels, kind: Binary, ctype: str, a: str, b: str) -> str:
    """Return `a kind b` for two expressions of `ctype` without side effects, as a `ctype`."""
    if kind in (Binary.MIN, Binary.MAX):
        sign = "<" if kind is Binary.MIN else ">"
        # NaN is propagated: no comparison with the other operand holds.
        nan = f" || {a} != {a}" if ctype == "float" else ""
        return f"({a} {sign} {b}{nan} ? {a} : {b})"
    if ctype == "float":
        if kind is Binary.POW:
            return f"{kernels.use('power_f32')}({a}, {b})"
        return f"{a} {SYMBOLS[kind]} {b}"
    return f"({ctype}){_wrapping(kernels, kind, ctype, a, b)}"


def _wrapping(kernels: Kernels, kind: Binary, ctype: str, a: str, b: str) -> str:
    """
    Return an expression on 64-bit unsigned integers, whose overflow wraps around as in the
    interpreter.
    """
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
