"""Attributes of the `graph` dialect: elementwise functions and small integer lists."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatData, StringAttr, i64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

Integers: TypeAlias = DenseArrayBase
"""A short list of integers, `array<i64: ...>`."""


def integers(values: Sequence[int]) -> DenseArrayBase:
    """`values` as an attribute."""
    return DenseArrayBase.from_list(i64, list(values))


class Function(StrEnum):
    """
    Elementwise functions of one float32 argument; parameters follow in parentheses.

    `exp` and `exp(...) - 1`, and with them every function below that needs one, are the fixed
    sequences of float32 operations of `ceras_ir.interpreters.float_functions`.
    """

    RELU = "relu"
    """`max(x, 0)`"""
    CLIP = "clip"
    """`min(max(x, p0), p1)`; infinities where a bound is absent"""
    LEAKY_RELU = "leaky_relu"
    """`x` where `x >= 0`, else `p0 * x`"""
    SIGMOID = "sigmoid"
    """`1 / (1 + exp(-x))`"""
    TANH = "tanh"
    """`-t / (t + 2)` with `t = exp(-2 * abs(x)) - 1` and the sign of `x`"""
    SWISH = "swish"
    """`x * sigmoid(x)`, also called SiLU"""
    HARD_SIGMOID = "hard_sigmoid"
    """`min(max(p0 * x + p1, 0), 1)`"""
    HARD_SWISH = "hard_swish"
    """`x * min(max(x + 3, 0), 6) / 6`"""
    EXP = "exp"
    """`exp(x)`"""
    LOG = "log"
    """`log(x)`, natural"""
    ERF = "erf"
    """`erf(x)`, the Gauss error function"""
    SQRT = "sqrt"
    """the square root, correctly rounded"""
    ABS = "abs"
    """`x` without its sign"""
    SIGN = "sign"
    """1 above 0, -1 below, else `x`"""
    FLOOR = "floor"
    """the greatest integer not above `x`"""
    CEIL = "ceil"
    """the least integer not below `x`"""
    ROUND = "round"
    """the nearest integer, ties to even"""
    ELU = "elu"
    """`x` where `x >= 0`, else `p0 * (exp(x) - 1)`"""
    CELU = "celu"
    """`x` where `x >= 0`, else `p0 * (exp(x / p0) - 1)`"""
    SOFTPLUS = "softplus"
    """`max(x, 0) + log(1 + exp(-abs(x)))`"""
    SOFTSIGN = "softsign"
    """`x / (1 + abs(x))`"""
    THRESHOLDED_RELU = "thresholded_relu"
    """`x` where `x > p0`, else 0"""
    MISH = "mish"
    """`x * (n / (n + 2))` with `n = e * (e + 2)`, `e = exp(min(x, 20))`: `x * tanh(softplus(x))`"""
    GELU = "gelu"
    """`0.5 * x * (1 + erf(x * sqrt(1/2)))`, the constant rounded to float32"""
    GELU_TANH = "gelu_tanh"
    """`0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * (x * x * x))))`"""


PARAMETERS: dict[Function, int] = {
    Function.CLIP: 2,
    Function.LEAKY_RELU: 1,
    Function.HARD_SIGMOID: 2,
    Function.ELU: 1,
    Function.CELU: 1,
    Function.THRESHOLDED_RELU: 1,
}
"""How many parameters a function has; none where it is not listed."""


@irdl_attr_definition
class FunctionAttr(ParametrizedAttribute):
    """An elementwise function, for example `#graph.function<clip, 0.0, 6.0>`."""

    name = "graph.function"

    function: StringAttr
    constants: ArrayAttr[FloatData]

    def __init__(self, function: Function, parameters: Sequence[float] = ()):
        super().__init__(
            StringAttr(function.value), ArrayAttr([FloatData(float(p)) for p in parameters])
        )

    @property
    def kind(self) -> Function:
        return Function(self.function.data)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(p.data for p in self.constants)

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """The bounds of a function that only clips, which a requantization can absorb."""
        match self.kind:
            case Function.RELU:
                return 0.0, float("inf")
            case Function.CLIP:
                return self.values[0], self.values[1]
            case _:
                return None

    def verify(self) -> None:
        if self.function.data not in set(Function):
            raise VerifyException(
                f"function must be one of {', '.join(Function)}, got {self.function.data}"
            )
        if len(self.constants) != (n := PARAMETERS.get(self.kind, 0)):
            raise VerifyException(
                f"{self.function.data} takes {n} parameters, got {len(self.constants)}"
            )
        if self.kind is Function.CLIP and not self.values[0] <= self.values[1]:
            raise VerifyException(f"empty clip range [{self.values[0]}, {self.values[1]}]")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        values: list[FloatData] = []
        with parser.in_angle_brackets():
            function = parser.parse_identifier()
            while parser.parse_optional_punctuation(","):
                negative = parser.parse_optional_characters("-") is not None
                if parser.parse_optional_keyword("inf"):
                    value = float("inf")
                else:
                    value = float(parser.parse_number())
                values.append(FloatData(-value if negative else value))
        return StringAttr(function), ArrayAttr(values)

    def print_parameters(self, printer: Printer) -> None:
        fields = [self.function.data, *(_decimal(v) for v in self.values)]
        printer.print_string(f"<{', '.join(fields)}>")


def _decimal(value: float) -> str:
    """A decimal that reads back as `value`; whole numbers keep their point."""
    text = repr(value)
    return text if "inf" in text or "." in text else text.replace("e", ".0e")
