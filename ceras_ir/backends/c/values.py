"""
Print values and functions in C: types, literals, operands of kernels, requantization, kernels.

Literals denote exactly the same value in C. `#graph.requant` becomes C statements on a local
variable `v`, in 32 bits if these are sufficient.

Functions of `runtime/` are templates with `@NAME@` holes for types. A template has an `#include`
for each function that it calls. The interpreter (`float_text`) defines the functions of floats, so
expressions compute the same operations in the same order. A model contains each function that a
layer uses a single time, after the functions that it calls.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.float_text import Text, expression, float_literal, float_text
from ceras_ir.support.diagnostics import Finding


@cache
def _template(name: str) -> Text:
    if (text := float_text(name)) is not None:
        return text
    text = Text.read(files("ceras_ir.backends.c") / "runtime", name)
    assert text is not None, name
    return text.with_constants()


def filled(text: str, holes: Mapping[str, object]) -> str:
    """Return `text` with each `@NAME@` replaced by the value of `NAME` in `holes`."""
    for hole, value in holes.items():
        text = text.replace(f"@{hole}@", str(value))
    return text


class Kernels:
    """
    The collection of C functions that the layers of a model call, in the order of their first use.
    Each is printed a single time, to `model_kernels.h`.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def use(self, name: str, **holes: str) -> str:
        """
        Add the C function of the template `name` in `runtime/`, and the functions that it calls.
        Return the name in C.

        `holes` has the text for each `@HOLE@` of the template. The hole `NAME` is also appended to
        the name in C, so that variants for several types differ: `tree_leaf_int16`.
        """
        template = _template(name)
        for needed in template.needs:
            self.use(needed)
        text = filled(template.body, holes)
        assert "@" not in text, text
        suffix = holes.get("NAME")
        return self._keep(f"{name}_{suffix}" if suffix else name, text)

    def add(self, function: str, text: str, condition: str) -> str:
        """
        Add the C function with the name `function` and the definition `text`, which is compiled
        only if the preprocessor `condition` holds. Return the name.
        """
        return self._keep(function, f"#if {condition}\n{text}#endif\n")

    def _keep(self, function: str, text: str) -> str:
        known = self._texts.setdefault(function, text)
        assert known == text, function
        return function

    @property
    def functions(self) -> Mapping[str, str]:
        """The text of each function, by name."""
        return self._texts

    def replace(self, old: Sequence[str], new: str, text: str) -> None:
        """Replace the functions `old` by a single function at the place of the first."""
        dropped = set(old[1:])
        self._texts = {
            new if name == old[0] else name: text if name == old[0] else other
            for name, other in self._texts.items()
            if name not in dropped
        }

    @property
    def text(self) -> str:
        functions = "\n".join(self._texts.values())
        return re.sub(r"^static (?!const )", "MODEL_STATIC ", functions, flags=re.MULTILINE)


def apply(
    kernels: Kernels,
    function: FunctionAttr | None,
    x: str,
    parameters: Sequence[str] | None = None,
) -> str:
    """
    Return the C expression of `function`, such as sigmoid, for a float expression `x` without side
    effects. If `function` is `None`, return `x`. The C functions that the expression calls are
    added to `kernels`. `parameters` are C expressions that replace the parameters of `function`.
    """
    if function is None:
        return x
    known = parameters or [float_literal(v) for v in function.values]
    needs, text = expression(function.data, x, known)
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
    """
    Return the C expression of the elementwise operation `kind` (add, minimum, ...) on `a` and `b`,
    which are expressions of `ctype` without side effects. C functions that it calls are added to
    `kernels`.
    """
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
    Return the C expression of the integer operation `kind` on `a` and `b`. It is computed in 64-bit
    unsigned integers, so that overflow wraps around as in the interpreter.
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


def c_type(element: Attribute) -> str:
    """Return the C type that stores `element`, for example `int8_t`."""
    if isinstance(graph.storage_type(element), Float32Type):
        return "float"
    name = graph.numpy_dtype(element).name
    return "uint8_t" if name == "bool" else f"{name}_t"


def value_type(value: SSAValue) -> str:
    """Return the C type of the elements of a tensor value, for example `int8_t`."""
    return c_type(graph.element_of(value))


def int_literal(value: int) -> str:
    """
    Return a C literal of a sufficiently wide type. The lowest int32 is `INT32_MIN`, because C has
    no literal for it.
    """
    if value == -(1 << 31):
        return "INT32_MIN"
    if -(1 << 31) < value < 1 << 31:
        return str(value)
    assert abs(value) < 1 << 63
    return f"INT64_C({value})"


def less(text: str, offset: int) -> str:
    """Return the C expression `text - offset`, or `text` if the offset is zero."""
    if offset == 0:
        return text
    return f"{text} - {offset}" if offset > 0 else f"{text} + {-offset}"


def steps_left(total: int, start: str, step: int) -> str:
    """
    Return the C expression of the number of iterations in the block of a loop that begins at index
    `start`: `step`, or the rest of `total` if that is smaller.
    """
    rest = f"{total} - {start}"
    return f"{rest} < {step} ? {rest} : {step}" if total % step else str(step)


def zero_point_of(element: UniformType) -> int:
    """Return the zero point of a quantized type, which must be equal for all channels."""
    points = {z.data for z in element.zero_points}
    assert len(points) == 1
    return points.pop()


def centred_bound(element: UniformType) -> int:
    """
    Return the largest magnitude of a stored integer minus the zero point: 128 for int8 with zero
    point 0.
    """
    point = zero_point_of(element)
    return max(element.high - point, point - element.low)


def sum_bound(value: SSAValue) -> int:
    """
    Return the largest magnitude of a stored operand minus the zero point. A sum of 32 bits is
    bounded by the clamp range of its requantization.
    """
    element, owner = quantized(value, "operand"), value.owner
    bound = centred_bound(element)
    properties = owner.properties if isinstance(owner, Operation) else {}
    requant = properties.get("requant")
    if element.storage.width.data < 32 or "table" in properties:
        return bound
    if not isinstance(requant, RequantAttr):
        return bound
    point = zero_point_of(element)
    return min(bound, max(requant.high.data - point, point - requant.low.data, 0))


class Refused(Exception):
    """An operation cannot be printed as C. The message has the violated rule and the remedy."""

    def finding(self, node: str, operator: str) -> Finding:
        return Finding(node, operator, f"unsupported by the C backend: {self}")


@dataclass(frozen=True)
class Rescaling:
    """The C code that requantizes: it converts the sum of integer terms to a stored integer."""

    type: str
    """The C type of `v`: `int32_t` or `int64_t`."""
    statements: tuple[str, ...]
    """The C statements that convert the sum in `v` to the clamped `v`."""
    result: str
    """The stored number, as a C expression in `v`."""

    def lines(self, terms: Sequence[str], target: str) -> list[str]:
        """
        Return C statements that add `terms`, requantize the sum, and store it in the C expression
        `target`.
        """
        cast = "(int64_t)" if self.type == "int64_t" else ""
        total = f"{cast}{terms[0]}" + "".join(f" + {t}" for t in terms[1:])
        return [f"{self.type} v = {total};", *self.statements, f"{target} = {self.result};"]


def half_of(requant: RequantAttr) -> int:
    """
    Return the constant that rounding to nearest adds before the shift: half a unit of the result,
    `2^(shift - 1)`. It is 0 for rounding down (`FLOOR`) and without a shift.
    """
    shift = requant.shift.data
    return 1 << shift - 1 if shift and requant.mode is not Rounding.FLOOR else 0


def can_fold_half(requant: RequantAttr) -> bool:
    """
    Return whether the rounding of a requantization is only the addition of a constant, so that the
    bias can include it. This holds for rounding half up and down, without a multiplier.
    """
    return requant.multiplier.data == 1 and requant.mode in (Rounding.HALF_UP, Rounding.FLOOR)


def rescaling(
    requant: RequantAttr,
    bound: int,
    storage: str,
    *,
    half_folded: bool = False,
    multiplier: str | None = None,
    shift_text: str | None = None,
    scaled_bound: int = 0,
    in_words: bool = False,
) -> Rescaling:
    """
    Return the C code that requantizes a sum: multiplier, shift with rounding, clamp and zero point.

    `bound` is the largest magnitude of the sum, from which 32 or 64 bits are chosen, and `storage`
    is the C type of the result. With `half_folded`, the sum already includes the constant of the
    rounding. `multiplier` and `shift_text` are C expressions for requantization per channel, which
    replace the values of the attribute; then `scaled_bound` is the largest magnitude of a product
    of sum and multiplier. Products beyond 64 bits raise `Refused`.

    With `in_words`, the sum is clamped before the shift if it then fits 16 bits, for compilers that
    choose the width of vectors by ranges. Rounding is monotone and preserves integers, so the
    result is equal.
    """
    shift, zero_point = requant.shift.data, requant.zero_point.data
    low, high = requant.low.data - zero_point, requant.high.data - zero_point
    factor, shifts = requant.factors[0][0], requant.factors[1]
    if requant.is_normalized:
        shift = max(shifts)
    scaled = scaled_bound if multiplier is not None else bound * factor
    half = 0 if half_folded else half_of(requant)
    max_scaled = scaled + half + 1
    if requant.is_normalized:
        max_scaled = scaled + (1 << shift - 1) + SECOND_UNIT
    # Sums with 32-bit results do not reach the bounds.
    if clamps := low > -max_scaled or max_scaled > high:
        max_scaled = max(max_scaled, abs(low), abs(high))
    if max_scaled >= 1 << 63:
        raise Refused(
            f"a sum of up to {bound} times its multiplier reaches {scaled}, beyond 64 bits; "
            "use storage of 8 or 16 bits"
        )
    # The result with the zero point is also in range: it is below the bounds, or they are small.
    wide = max_scaled >= 1 << 31 or shift > 31
    wide |= clamps and abs(zero_point) + max(abs(low), abs(high)) >= 1 << 31
    statements: list[str] = []
    if multiplier is not None:
        statements.append(f"v *= {multiplier};")
    elif factor != 1:
        statements.append(f"v *= {int_literal(factor)};")
    if requant.is_normalized:
        twice = requant.mode is Rounding.DOUBLE_ROUND
        statements.append(f"v = {_shifted_by_channel(shifts, shift_text, twice)};")
    elif shift:
        statements.append(f"v = {_shifted(requant.mode, shift, half)};")
    if clamps:
        fits = all(-(1 << 15) <= v < 1 << 15 for v in (low << shift, (high << shift) + half))
        is_plain = shift > 0 and multiplier is None and not (wide or requant.is_normalized)
        is_first = in_words and fits and is_plain
        places = shift if is_first else 0
        low, high = int_literal(low << places), int_literal(high << places)
        clamp = f"v = v < {low} ? {low} : v > {high} ? {high} : v;"
        statements.insert(len(statements) - is_first, clamp)
    offset = f" + {zero_point}" if zero_point > 0 else f" - {-zero_point}" if zero_point else ""
    result = f"({storage})(v{offset})" if offset else f"({storage})v"
    return Rescaling("int64_t" if wide else "int32_t", tuple(statements), result)


def _shifted(mode: Rounding, shift: int, half: int) -> str:
    """
    Return the C expression of `v / 2^shift`, rounded by `mode`. `half` is the constant that
    rounding adds, or 0 if the sum already includes it. The header checks that right shifts are
    arithmetic.
    """
    if half == 0:
        return f"v >> {shift}"
    match mode:
        case Rounding.HALF_UP:
            return f"(v + {int_literal(half)}) >> {shift}"
        case Rounding.HALF_AWAY:
            return f"(v + {int_literal(half)} - (v < 0)) >> {shift}"
        case Rounding.HALF_EVEN:
            return f"(v + {int_literal(half - 1)} + ((v >> {shift}) & 1)) >> {shift}"
        case Rounding.FLOOR:
            return f"v >> {shift}"
        case Rounding.DOUBLE_ROUND:
            raise AssertionError(mode)


FIRST_SHIFT, SECOND_UNIT = 31, 1 << 31
"""The shift of the first rounding of `double_round`, and the unit of the second."""


def _shifted_by_channel(shifts: Sequence[int], text: str | None, twice: bool) -> str:
    """
    Return the C expression of the product `v`, shifted by the shift of its channel and rounded half
    up. `text` is the C expression of the shift, or `None` if all `shifts` are equal.

    If `twice` is set, the result is as after two roundings, of which the first is by 31 bits: the
    half of the first rounding is added, or subtracted from negative products.
    """
    shift = str(shifts[0]) if text is None else text
    half = int_literal(1 << shifts[0] - 1) if text is None else f"(INT64_C(1) << ({text} - 1))"
    first = f"{int_literal(SECOND_UNIT >> 1)} - ((int64_t)(v < 0) << {FIRST_SHIFT})"
    if not twice or max(shifts) <= FIRST_SHIFT:
        return f"(v + {half}) >> {shift}"
    if min(shifts) <= FIRST_SHIFT:
        first = f"({shift} > {FIRST_SHIFT} ? {first} : 0)"
    return f"(v + {half} + {first}) >> {shift}"


def quantized(value: SSAValue, name: str) -> UniformType:
    """
    Return the element type of an operand, which must be quantized. Types that no kernel supports
    raise `Refused`: 32-bit unsigned integers, and zero points per channel. The message calls the
    operand `name`.
    """
    element = graph.element_of(value)
    assert isinstance(element, UniformType)
    if element.storage.width.data == 32 and not element.is_signed:
        raise Refused(f"{name} is stored as {element.storage}; use i32 or 8 or 16 bits")
    if len({z.data for z in element.zero_points}) > 1:
        raise Refused(f"{name} has a zero point per channel; use one for all channels")
    return element


def constant_weights(op: graph.LinearOperation) -> graph.ConstantOp:
    """
    Return the constant weights of a layer. Weights that are computed at run time raise `Refused`,
    because they cannot be packed at compile time.
    """
    owner = op.weights.owner
    if not isinstance(owner, graph.ConstantOp):
        raise Refused("weights must be constants; fold or freeze their producer")
    return owner
