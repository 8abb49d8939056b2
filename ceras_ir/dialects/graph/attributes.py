"""
Attributes of the `graph` dialect, such as functions and lists of small integers, and traits.

A trait holds of every operation of a class: analyses ask for it instead of naming classes.

An answer that depends on an operation's attributes is a property of `GraphOperation`, which
also verifies what can be seen of these traits on one operation.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Self

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatData, IntegerType, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ceras_ir.dialects.quant import decimal


class Elementwise(OpTrait):
    """
    Element `i` of the result is computed from element `i` of every operand, each broadcast as
    numpy does, and from nothing else, unless the operation `depends_on_channel`.
    """


class MayOverwrite(OpTrait):
    """Every target's kernel is exact where the result lies over an operand of its shape."""


class MovesElements(OpTrait):
    """The result has elements of the one operand, in any places; nothing is computed."""


class View(MovesElements):
    """The result is the bytes of the one operand under another shape."""


class CopiesAtBorder(OpTrait):
    """The result is the operand in the layout of another device's memory."""


def viewed(op: Operation) -> SSAValue | None:
    """The operand whose bytes the result of `op` is, or None."""
    return op.operands[0] if op.has_trait(View, value_if_unregistered=False) else None


def integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """`values` as an attribute."""
    return DenseArrayBase.from_list(i64, list(values))


def integers_of(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """What `integers` has made an attribute of; text is read once."""
    return _unpacked(attribute.data.data)


@lru_cache(maxsize=1 << 12)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


FIFTH = 0.20000000298023224
"""0.2 as a float32."""


@dataclass(frozen=True)
class OnnxOperator:
    """The ONNX operator of one operand that is a function; parameters are its attributes."""

    name: str
    since: int = 13
    """The opset."""
    defaults: tuple[float, ...] = ()
    """Of the attributes, in the order of the parameters."""
    mode: tuple[str, str] | None = None
    """An attribute of text, and its value, where one operator is several functions."""


@dataclass(frozen=True)
class Facts:
    """What is known of a function beside its values, which the interpreter and C text state."""

    onnx: OnnxOperator | None = None
    """None where ONNX has no such operator, or one that takes more than attributes."""
    parameters: tuple[str, ...] = ()
    clip: Callable[[Sequence[float]], tuple[float, float]] | None = None
    """The bounds of a function that does nothing but clip, from its parameters."""
    is_homogeneous: bool = False
    """Whether `f(a * x)` is `a * f(x)` for every `a` above 0; of clips their bounds say it."""


class Function(StrEnum):
    """
    Elementwise functions of one float32 argument; parameters follow in parentheses.

    `exp` and `exp(...) - 1`, and with them every function below that needs one, are the fixed
    sequences of float32 operations of `ceras_ir.interpreters.float_functions`. In nnet files a
    function is its number in this list, from 1; new ones come last.
    """

    _value_: str
    facts: Facts

    def __new__(cls, name: str, facts: Facts) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.facts = facts
        return member

    RELU = "relu", Facts(OnnxOperator("Relu"), clip=lambda p: (0.0, inf))
    """`max(x, 0)`: 0 where `x < 0`, else `x`"""
    CLIP = "clip", Facts(parameters=("low", "high"), clip=lambda p: (p[0], p[1]))
    """`p0` where `x < p0`, `p1` where `x > p1`, else `x`; infinities where a bound is absent"""
    LEAKY_RELU = (
        "leaky_relu",
        Facts(OnnxOperator("LeakyRelu", 13, (0.01,)), ("alpha",), is_homogeneous=True),
    )
    """`x` where `x >= 0`, else `p0 * x`"""
    SIGMOID = "sigmoid", Facts(OnnxOperator("Sigmoid"))
    """`1 / (1 + exp(-x))`"""
    TANH = "tanh", Facts(OnnxOperator("Tanh"))
    """`-t / (t + 2)` with `t = exp(-2 * abs(x)) - 1` and the sign of `x`"""
    SWISH = "swish", Facts()
    """`x * sigmoid(x)`, also called SiLU"""
    HARD_SIGMOID = (
        "hard_sigmoid",
        Facts(OnnxOperator("HardSigmoid", 13, (FIFTH, 0.5)), ("alpha", "beta")),
    )
    """`min(max(p0 * x + p1, 0), 1)`"""
    HARD_SWISH = "hard_swish", Facts(OnnxOperator("HardSwish", 14))
    """`x * (min(max(x + 3, 0), 6) / 6)`"""
    EXP = "exp", Facts(OnnxOperator("Exp"))
    """`exp(x)`"""
    LOG = "log", Facts(OnnxOperator("Log"))
    """`log(x)`, natural"""
    ERF = "erf", Facts(OnnxOperator("Erf"))
    """`erf(x)`, the Gauss error function"""
    SQRT = "sqrt", Facts(OnnxOperator("Sqrt"))
    """the square root, correctly rounded"""
    ABS = "abs", Facts(OnnxOperator("Abs"))
    """`x` without its sign"""
    SIGN = "sign", Facts(OnnxOperator("Sign"))
    """1 above 0, -1 below, else `x`"""
    FLOOR = "floor", Facts(OnnxOperator("Floor"))
    """the greatest integer not above `x`; this, `ceil` and `round` leave zeros their sign"""
    CEIL = "ceil", Facts(OnnxOperator("Ceil"))
    """the least integer not below `x`"""
    ROUND = "round", Facts(OnnxOperator("Round", 11))
    """the nearest integer, ties to even"""
    ELU = "elu", Facts(OnnxOperator("Elu", 13, (1.0,)), ("alpha",))
    """`x` where `x >= 0`, else `p0 * (exp(x) - 1)`"""
    CELU = "celu", Facts(OnnxOperator("Celu", 13, (1.0,)), ("alpha",))
    """`x` where `x >= 0`, else `p0 * (exp(x / p0) - 1)`"""
    SOFTPLUS = "softplus", Facts(OnnxOperator("Softplus", 1))
    """`max(x, 0) + log(1 + exp(-abs(x)))`, accurate near 0 too"""
    SOFTSIGN = "softsign", Facts(OnnxOperator("Softsign", 1))
    """`x / (1 + abs(x))`"""
    THRESHOLDED_RELU = (
        "thresholded_relu",
        Facts(OnnxOperator("ThresholdedRelu", 13, (1.0,)), ("alpha",)),
    )
    """`x` where `x > p0`, else 0"""
    MISH = "mish", Facts(OnnxOperator("Mish", 18))
    """`x * (n / (n + 2))` with `n = e * (e + 2)`, `e = exp(min(x, 20))`: `x * tanh(softplus(x))`"""
    GELU = "gelu", Facts(OnnxOperator("Gelu", 20, mode=("approximate", "none")))
    """`0.5 * x * (1 + erf(x * sqrt(1/2)))`, the constant rounded to float32"""
    GELU_TANH = "gelu_tanh", Facts(OnnxOperator("Gelu", 20, mode=("approximate", "tanh")))
    """`0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * (x * x * x))))`"""
    SIN = "sin", Facts(OnnxOperator("Sin", 7))
    """`sin(x)` in radians; not a number beyond 2^22 in magnitude"""
    COS = "cos", Facts(OnnxOperator("Cos", 7))
    """`cos(x)` in radians; not a number beyond 2^22 in magnitude"""
    ATAN = "atan", Facts(OnnxOperator("Atan", 7))
    """`atan(x)`, the arc whose tangent is `x`"""


@irdl_attr_definition
class FunctionNameAttr(EnumAttribute[Function]):
    """Which function, without its parameters."""

    name = "graph.function_name"


@irdl_attr_definition
class FunctionAttr(ParametrizedAttribute):
    """
    An elementwise function, for example `#graph.function<clip, 0.0, 6.0>`. With a scale and an
    offset, `<hard_swish, scale 0.75, offset 0.5>`, its result is multiplied by the one, and the
    other is added: two float32 operations. A function that only clips has none of them, because its
    bounds can be others.
    """

    name = "graph.function"

    function: FunctionNameAttr
    constants: ArrayAttr[FloatData]
    behind: ArrayAttr[FloatData]
    """Scale and offset, or nothing."""

    def __init__(
        self,
        function: Function,
        parameters: Sequence[float] = (),
        affine: tuple[float, float] | None = None,
    ):
        super().__init__(
            FunctionNameAttr(function),
            ArrayAttr([FloatData(float(p)) for p in parameters]),
            ArrayAttr([FloatData(float(p)) for p in affine or ()]),
        )

    @property
    def kind(self) -> Function:
        return self.function.data

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(p.data for p in self.constants)

    @property
    def affine(self) -> tuple[float, float] | None:
        """The scale and the offset of the result, if it has them."""
        pair = tuple(p.data for p in self.behind)
        return (pair[0], pair[1]) if pair else None

    @property
    def core(self) -> "FunctionAttr":
        """The function without scale and offset."""
        return FunctionAttr(self.kind, self.values)

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """The bounds of a function that only clips, which a requantization can absorb."""
        clip = self.kind.facts.clip
        return None if clip is None else clip(self.values)

    @property
    def is_homogeneous(self) -> bool:
        """Whether `f(a * x)` is `a * f(x)` for every `a` above 0."""
        if self.affine is not None and self.affine[1] != 0.0:
            return False
        if (bounds := self.clip_range) is not None:
            return all(bound in (0.0, inf, -inf) for bound in bounds)
        return self.kind.facts.is_homogeneous

    def verify(self) -> None:
        if (got := len(self.constants)) != (n := len(self.kind.facts.parameters)):
            raise VerifyException(f"{self.kind} takes {n} parameters, got {got}")
        if self.kind is Function.CLIP and not self.values[0] <= self.values[1]:
            raise VerifyException(f"empty clip range [{self.values[0]}, {self.values[1]}]")
        if len(self.behind) not in (0, 2):
            raise VerifyException(f"scale and offset go together, got {len(self.behind)} numbers")
        if len(self.behind) and self.kind.facts.clip is not None:
            raise VerifyException(f"{self.kind} has bounds, and neither scale nor offset")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: list[FloatData] = []
        with parser.in_angle_brackets():
            name = parser.parse_identifier()
            if name not in set(Function):
                known = ", ".join(Function)
                parser.raise_error(f"function must be one of {known}, got {name}")
            affine: list[FloatData] = []
            while parser.parse_optional_punctuation(","):
                word = ("scale", "offset")[len(affine)] if len(affine) < 2 else ""
                if word and parser.parse_optional_keyword(word):
                    affine.append(_number(parser))
                elif affine:
                    parser.raise_error("nothing but an offset follows the scale")
                else:
                    values.append(_number(parser))
        return FunctionNameAttr(Function(name)), ArrayAttr(values), ArrayAttr(affine)

    def print_parameters(self, printer: Printer) -> None:
        fields = [self.kind.value, *(decimal(v) for v in self.values)]
        if self.affine is not None:
            words = zip(("scale", "offset"), self.affine, strict=True)
            fields += [f"{word} {decimal(v)}" for word, v in words]
        printer.print_string(f"<{', '.join(fields)}>")


def _number(parser: AttrParser) -> FloatData:
    """A number, or an infinity."""
    negative = parser.parse_optional_characters("-") is not None
    known = parser.parse_optional_keyword("inf")
    value = float("inf") if known else float(parser.parse_number())
    return FloatData(-value if negative else value)
