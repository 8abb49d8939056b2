"""
The element types of operands and results that each TOSA operation accepts, as in the specification.

A row of `SIGNATURES` has the types of the operands in order and the type of the result. Trailing
operands may be missing, since parameters are attributes in older MLIR. Floats of 64 bits are
accepted where the specification has floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from ceras_ir.frontends.tosa.operation import FLOAT_ELEMENTS as FLOATS
from ceras_ir.frontends.tosa.operation import PLAIN

ELEMENTS = tuple(PLAIN)
INTEGERS = tuple(e for e in ELEMENTS if e not in ("i1", "index", *FLOATS))

LIST = "list"
"""An operand with a list of integers: a `!tosa.shape`, or a tensor in older MLIR."""

EACH = "..."
"""Any number of further operands of the type before."""

MAX_SHOWN = 3
"""The signatures that a message lists."""


@dataclass(frozen=True)
class Signature:
    """The element types of operands and result, and the accepted values of `acc_type`."""

    operands: tuple[str, ...]
    result: str
    accumulators: tuple[str, ...] = ()

    def accepts(self, operands: Sequence[str], result: str) -> bool:
        expected = self.operands
        if expected[-1] == EACH:
            expected = (expected[0],) * len(operands)
        return (
            result == self.result
            and len(operands) <= len(expected)
            and all(map(_agrees, operands, expected))
        )

    def __str__(self) -> str:
        return f"({', '.join(self.operands)}) -> {self.result}"


def _agrees(given: str, expected: str) -> bool:
    if expected == LIST:
        return given in (LIST, *INTEGERS, "index")
    return given == expected


def _rows(text: str, elements: Sequence[str] = ELEMENTS) -> Iterator[Signature]:
    """
    Return the signatures of `text`, such as `T T -> i1`, in which `T` is each of `elements`, and
    `list` a list of integers.
    """
    for element in elements if "T" in text.split() else ("",):
        *operands, _, result = (element if word == "T" else word for word in text.split())
        yield Signature(tuple(operands), result)


def _products(operands: str, count: int, integers: Sequence[str]) -> tuple[Signature, ...]:
    """
    Return the signatures of a layer. `operands` are the types of the operands: `X` for that of the
    input, `W` of the weights, `B` of the bias and of the result. `integers` are the types of input,
    weights and sums, such as `i8 i4 i32`. Floats are summed in their type or in the next wider one.
    """
    found: list[Signature] = []
    for row in integers:
        x, w, total = row.split()
        kinds = {"X": x, "W": w, "B": total}
        found.append(Signature(tuple(kinds[k] for k in operands.split()), total, (total,)))
    for i, element in enumerate(FLOATS):
        found.append(Signature((element,) * count, element, FLOATS[i : i + 2]))
    return tuple(found)


CONVOLUTION = _products(
    "X W B X W", 5, ("i8 i8 i32", "i8 i4 i32", "ui8 ui8 i32", "ui8 i8 i32", "i16 i8 i48")
)
PRODUCT = (
    *_products("X W X W", 4, ("i8 i8 i32", "ui8 ui8 i32", "i16 i16 i48")),
    *_rows("f16 f16 f16 f16 -> f32"),
)

AVERAGE = (
    *(Signature((kind,) * 3, kind, ("i32",)) for kind in ("i8", "ui8", "i16")),
    *(Signature((kind,) * 3, kind, FLOATS[i : i + 2]) for i, kind in enumerate(FLOATS)),
)

RESCALED = ("i8", "ui8", "i16", "i32", "i48")


def _points(element: str) -> tuple[str, ...]:
    """Return the types of zero points of `element`, which may be without a sign."""
    return tuple(dict.fromkeys((element, element.removeprefix("u"))))


RESCALE = tuple(
    Signature((source, multiplier, "i8", input_zp, output_zp), result)
    for source, result, multiplier in product(RESCALED, RESCALED, ("i32", "i16"))
    for input_zp, output_zp in product(_points(source), _points(result))
)

RESIZE = (
    *_rows("T list list list -> T"),
    *_rows("i8 list list list -> i32"),
    *_rows("i16 list list list -> i48"),
)

MULTIPLY = (
    *_rows("T T i8 -> T", (*INTEGERS, *FLOATS)),
    *_rows("T T i8 -> i32", ("i8", "ui8", "i16")),
)

SIGNATURES: dict[str, tuple[Signature, ...]] = {
    **dict.fromkeys(
        ("conv2d", "conv3d", "depthwise_conv2d", "transpose_conv2d", "fully_connected"), CONVOLUTION
    ),
    "matmul": PRODUCT,
    "avg_pool2d": AVERAGE,
    "rescale": RESCALE,
    "resize": RESIZE,
    "mul": MULTIPLY,
    **dict.fromkeys(
        ("abs", "clamp", "identity", "max_pool2d", "reduce_max", "reduce_min", "reduce_product",
         "reduce_prod", "reduce_sum", "reverse"),
        tuple(_rows("T -> T")),
    ),
    **dict.fromkeys(("reshape", "tile", "transpose"), tuple(_rows("T list -> T"))),
    "concat": tuple(_rows("T ... -> T")),
    "gather": tuple(row for n in ("i32", "i64", "index") for row in _rows(f"T {n} -> T")),
    "negate": tuple(_rows("T T T -> T")),
    "pad": tuple(_rows("T list T -> T")),
    "scatter": tuple(row for n in ("i32", "i64", "index") for row in _rows(f"T {n} T -> T")),
    "select": tuple(_rows("i1 T T -> T")),
    "slice": tuple(_rows("T list list -> T")),
    **dict.fromkeys(
        ("add", "sub", "maximum", "minimum", "pow", "intdiv", "int_div", "div"),
        tuple(_rows("T T -> T")),
    ),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "arithmetic_right_shift",
         "logical_left_shift", "logical_right_shift"),
        tuple(_rows("T T -> T", INTEGERS)),
    ),
    **dict.fromkeys(("bitwise_not", "clz"), tuple(_rows("T -> T", INTEGERS))),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), tuple(_rows("i1 i1 -> i1"))),
    **dict.fromkeys(("logical_not", "reduce_all", "reduce_any"), tuple(_rows("i1 -> i1"))),
    **dict.fromkeys(("equal", "greater", "greater_equal"), tuple(_rows("T T -> i1"))),
    **dict.fromkeys(
        ("ceil", "cos", "erf", "exp", "floor", "log", "reciprocal", "rsqrt", "sigmoid", "sin",
         "tanh"),
        tuple(_rows("T -> T", FLOATS)),
    ),
    "argmax": tuple(row for n in ("i32", "i64", "index") for row in _rows(f"T -> {n}")),
    "cast": tuple(row for result in ELEMENTS for row in _rows(f"T -> {result}")),
    "table": (*_rows("i8 i8 -> i8"), *_rows("i16 i16 -> i32")),
}  # fmt: skip
"""The signatures of each imported operation, by the name without `tosa.`."""


def wrong_types(
    name: str, operands: Sequence[str], result: str, accumulator: str | None
) -> str | None:
    """
    Return the error of the operation `name` with these element types of the operands (`LIST` for a
    `!tosa.shape`) and of the result, or `None` if they are accepted. `accumulator` is the attribute
    `acc_type`.
    """
    rows = SIGNATURES[name]
    found = [row for row in rows if row.accepts(operands, result)]
    if not found:
        near = [row for row in rows if row.operands[0] == operands[0]] if operands else []
        shown = (near or list(rows))[:MAX_SHOWN]
        given = Signature(tuple(operands), result)
        return f"has the element types {given}, expected {' or '.join(map(str, shown))}"
    known = {kind: None for row in found for kind in row.accumulators}
    if accumulator is None or accumulator in known or not known:
        return None
    return f"acc_type {accumulator}, expected {' or '.join(known)}"
