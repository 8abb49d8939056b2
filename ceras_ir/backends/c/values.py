"""
Print values in C: types of tensors, literals, operands of kernels, and requantization.

Literals denote exactly the same value in C. `#graph.requant` becomes C statements on a local
variable `v`, in 32 bits if these are sufficient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.support.diagnostics import Finding


def c_type(element: Attribute) -> str:
    """Return the C type that stores `element`, for example `int8_t`."""
    if isinstance(graph.storage_type(element), Float32Type):
        return "float"
    name = graph.numpy_dtype(element).name
    return "uint8_t" if name == "bool" else f"{name}_t"


def value_type(value: SSAValue) -> str:
    """Return the C type of the elements of a tensor value."""
    return c_type(graph.element_of(value))


def int_literal(value: int) -> str:
    """Return an integer constant of a sufficiently wide type. INT32_MIN has no literal in C."""
    if value == -(1 << 31):
        return "INT32_MIN"
    if -(1 << 31) < value < 1 << 31:
        return str(value)
    assert abs(value) < 1 << 63
    return f"INT64_C({value})"


def less(text: str, offset: int) -> str:
    """Return the expression `text - offset`, or `text` if the offset is zero."""
    if offset == 0:
        return text
    return f"{text} - {offset}" if offset > 0 else f"{text} + {-offset}"


def steps_left(total: int, start: str, step: int) -> str:
    """Return the length of the step from `start`: `step`, or the rest of `total` if shorter."""
    rest = f"{total} - {start}"
    return f"{rest} < {step} ? {rest} : {step}" if total % step else str(step)


def zero_point_of(element: UniformType) -> int:
    """Return the zero point of a type, which must be equal for all channels."""
    points = {z.data for z in element.zero_points}
    assert len(points) == 1
    return points.pop()


def centred_bound(element: UniformType) -> int:
    """Return the largest magnitude of a stored number minus the zero point."""
    point = zero_point_of(element)
    return max(element.high - point, point - element.low)


class Refused(Exception):
    """A layer that cannot be printed: the rule and the remedy."""

    def finding(self, node: str, operator: str) -> Finding:
        return Finding(node, operator, f"unsupported by the C backend: {self}")


@dataclass(frozen=True)
class Rescaling:
    """The C code that converts a sum of integer terms to a stored number."""

    type: str
    """The type of `v`: `int32_t` or `int64_t`."""
    statements: tuple[str, ...]
    """The statements from the sum in `v` to the clamped `v`."""
    result: str
    """The stored number, an expression in `v`."""

    def lines(self, terms: Sequence[str], target: str) -> list[str]:
        """Return statements that store the rescaled sum of `terms` in `target`."""
        cast = "(int64_t)" if self.type == "int64_t" else ""
        total = f"{cast}{terms[0]}" + "".join(f" + {t}" for t in terms[1:])
        return [f"{self.type} v = {total};", *self.statements, f"{target} = {self.result};"]


def half_of(requant: RequantAttr) -> int:
    """Return the constant that rounding half up adds before the shift."""
    shift = requant.shift.data
    return 1 << shift - 1 if shift and requant.mode is not Rounding.FLOOR else 0


def can_fold_half(requant: RequantAttr) -> bool:
    """Return whether the rounding is a constant that the bias can absorb."""
    return requant.multiplier.data == 1 and requant.mode in (Rounding.HALF_UP, Rounding.FLOOR)


def rescaling(
    requant: RequantAttr,
    bound: int,
    storage: str,
    *,
    half_folded: bool = False,
    multiplier: str | None = None,
    scaled_bound: int = 0,
) -> Rescaling:
    """
    Return the rescaling of a sum with magnitude up to `bound` (the half included if `half_folded`).

    `multiplier` is a C expression instead of the attribute. Its products reach `scaled_bound`.
    """
    shift, zero_point = requant.shift.data, requant.zero_point.data
    low, high = requant.low.data - zero_point, requant.high.data - zero_point
    factor = requant.multiplier.data
    scaled = scaled_bound if multiplier is not None else bound * factor
    half = 0 if half_folded else half_of(requant)
    most = scaled + half + 1
    # Sums with 32-bit results do not reach the bounds.
    if clamps := low > -most or most > high:
        most = max(most, abs(low), abs(high))
    if most >= 1 << 63:
        raise Refused(
            f"a sum of up to {bound} times its multiplier reaches {scaled}, beyond 64 bits; "
            "use storage of 8 or 16 bits"
        )
    # The result with the zero point is also in range: it is below the bounds, or they are small.
    wide = most >= 1 << 31 or shift > 31
    wide |= clamps and abs(zero_point) + max(abs(low), abs(high)) >= 1 << 31
    statements: list[str] = []
    if multiplier is not None:
        statements.append(f"v *= {multiplier};")
    elif factor != 1:
        statements.append(f"v *= {int_literal(factor)};")
    if shift:
        statements.append(f"v = {_shifted(requant.mode, shift, half)};")
    if clamps:
        statements.append(
            f"v = v < {int_literal(low)} ? {int_literal(low)} "
            f": v > {int_literal(high)} ? {int_literal(high)} : v;"
        )
    offset = f" + {zero_point}" if zero_point > 0 else f" - {-zero_point}" if zero_point else ""
    result = f"({storage})(v{offset})" if offset else f"({storage})v"
    return Rescaling("int64_t" if wide else "int32_t", tuple(statements), result)


def _shifted(mode: Rounding, shift: int, half: int) -> str:
    """Return `v / 2^shift` rounded; right shifts are arithmetic, as the header checks."""
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


def quantized(value: SSAValue, name: str) -> UniformType:
    """Return the element type of a quantized operand; refuse types without kernels."""
    element = graph.element_of(value)
    assert isinstance(element, UniformType)
    if element.storage.width.data == 32 and not element.is_signed:
        raise Refused(f"{name} is stored as {element.storage}; use i32 or 8 or 16 bits")
    if len({z.data for z in element.zero_points}) > 1:
        raise Refused(f"{name} has a zero point per channel; use one for all channels")
    return element


def constant_weights(op: graph.LinearOperation) -> graph.ConstantOp:
    """Return the constant weights, which a kernel packs at compile time."""
    owner = op.weights.owner
    if not isinstance(owner, graph.ConstantOp):
        raise Refused("weights must be constants; fold or freeze their producer")
    return owner
