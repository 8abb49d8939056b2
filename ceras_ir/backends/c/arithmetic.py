"""Elementwise functions of two operands as C expressions, float32 and plain integers."""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.dialects.graph import Binary, Compare

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
