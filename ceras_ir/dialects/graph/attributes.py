"""Define attributes of the `graph` dialect, such as functions and lists of integers, and traits."""

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


# A trait is true for each operation of a class, so that analyses do not depend on classes. An
# answer that depends on attributes is a property of `GraphOperation`, which verifies the traits.
class Elementwise(OpTrait):
    """
    Trait: element `i` of the result depends only on element `i` of each operand, after broadcasting
    by the rules of numpy. If the operation `depends_on_channel`, it also depends on the index of
    the last axis.
    """


class MayOverwrite(OpTrait):
    """
    Trait: the kernels of all targets may write the result into the memory of an operand of the same
    shape.
    """


class MovesElements(OpTrait):
    """
    Trait: the result consists of elements of the only operand in any order, without arithmetic.
    """


class View(MovesElements):
    """Trait: the result has the bytes of the only operand in the same order, but another shape."""


class ConvertsLayout(OpTrait):
    """
    Trait: the operation converts a tensor from the layout (order in memory) of a device to the
    layout of another device.
    """


def viewed_operand(op: Operation) -> SSAValue | None:
    """
    Return the operand if `op` is a view, such as a reshape, that needs no copy; otherwise `None`.
    """
    return op.operands[0] if op.has_trait(View, value_if_unregistered=False) else None


def integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Convert integers to an attribute `array<i64: ...>`."""
    return DenseArrayBase.from_list(i64, list(values))


def integers_of(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """Return the integers of an attribute `array<i64: ...>`. The results are cached."""
    return _unpacked(attribute.data.data)


@lru_cache(maxsize=1 << 12)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


_FLOAT32_FIFTH = 0.20000000298023224


@dataclass(frozen=True)
class OnnxOperator:
    """
    The ONNX operator of a function with one operand. The parameters of the function are attributes
    of the operator.
    """

    name: str
    since: int = 13
    """The first opset that has the operator."""
    defaults: tuple[float, ...] = ()
    """The default values of the attributes, in the order of parameters."""
    mode: tuple[str, str] | None = None
    """The name and the value of the string attribute that selects the function."""


@dataclass(frozen=True)
class Facts:
    """
    Properties of an elementwise function that cannot be derived from the definitions in numpy and
    C, such as the name in ONNX.
    """

    onnx: OnnxOperator | None = None
    """`None` if ONNX has no such operator, or only with additional operands."""
    parameters: tuple[str, ...] = ()
    clip: Callable[[Sequence[float]], tuple[float, float]] | None = None
    """The bounds of a function that only clips, computed from the parameters."""
    is_homogeneous: bool = False
    """Whether `f(a * x) = a * f(x)` for all `a > 0`; for clips the bounds decide."""


class Function(StrEnum):
    """
    Elementwise functions, which can have parameters.

    `ceras_ir.interpreters.float_functions` has the fixed sequences of float32 operations for `exp`,
    `exp(...) - 1` and functions that use them. The position in this list, from 1, is the code in
    nnet files, so new functions are appended.
    """

    _value_: str
    facts: Facts

    def __new__(cls, name: str, facts: Facts) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.facts = facts
        return member

    RELU = "relu", Facts(OnnxOperator("Relu"), clip=lambda p: (0.0, inf))
    """`max(x, 0)`: 0 if `x < 0`, else `x`"""
    CLIP = "clip", Facts(parameters=("low", "high"), clip=lambda p: (p[0], p[1]))
    """`p0` if `x < p0`, `p1` if `x > p1`, else `x`; an absent bound is infinite"""
    LEAKY_RELU = (
        "leaky_relu",
        Facts(OnnxOperator("LeakyRelu", 13, (0.01,)), ("alpha",), is_homogeneous=True),
    )
    """`x` if `x >= 0`, else `p0 * x`; in `graph.unary` also with a slope for each channel"""
    SIGMOID = "sigmoid", Facts(OnnxOperator("Sigmoid"))
    """`1 / (1 + exp(-x))`"""
    TANH = "tanh", Facts(OnnxOperator("Tanh"))
    """`-t / (t + 2)` with `t = exp(-2 * abs(x)) - 1` and the sign of `x`"""
    SWISH = "swish", Facts()
    """`x * sigmoid(x)`, also called SiLU"""
    HARD_SIGMOID = (
        "hard_sigmoid",
        Facts(OnnxOperator("HardSigmoid", 13, (_FLOAT32_FIFTH, 0.5)), ("alpha", "beta")),
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
    """`x` without the sign"""
    SIGN = "sign", Facts(OnnxOperator("Sign"))
    """1 if `x > 0`, -1 if `x < 0`, else `x`"""
    FLOOR = "floor", Facts(OnnxOperator("Floor"))
    """the largest integer <= `x`; `floor`, `ceil` and `round` keep the sign of zeros"""
    CEIL = "ceil", Facts(OnnxOperator("Ceil"))
    """the smallest integer >= `x`"""
    ROUND = "round", Facts(OnnxOperator("Round", 11))
    """the nearest integer, ties to even"""
    ELU = "elu", Facts(OnnxOperator("Elu", 13, (1.0,)), ("alpha",))
    """`x` if `x >= 0`, else `p0 * (exp(x) - 1)`"""
    CELU = "celu", Facts(OnnxOperator("Celu", 13, (1.0,)), ("alpha",))
    """`x` if `x >= 0`, else `p0 * (exp(x / p0) - 1)`"""
    SOFTPLUS = "softplus", Facts(OnnxOperator("Softplus", 1))
    """`max(x, 0) + log(1 + exp(-abs(x)))`, also accurate near 0"""
    SOFTSIGN = "softsign", Facts(OnnxOperator("Softsign", 1))
    """`x / (1 + abs(x))`"""
    THRESHOLDED_RELU = (
        "thresholded_relu",
        Facts(OnnxOperator("ThresholdedRelu", 13, (1.0,)), ("alpha",)),
    )
    """`x` if `x > p0`, else 0"""
    MISH = "mish", Facts(OnnxOperator("Mish", 18))
    """`x * (n / (n + 2))` with `n = e * (e + 2)`, `e = exp(min(x, 20))`: `x * tanh(softplus(x))`"""
    GELU = "gelu", Facts(OnnxOperator("Gelu", 20, mode=("approximate", "none")))
    """`0.5 * x * (1 + erf(x * sqrt(1/2)))`, the constant rounded to float32"""
    GELU_TANH = "gelu_tanh", Facts(OnnxOperator("Gelu", 20, mode=("approximate", "tanh")))
    """`0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * (x * x * x))))`"""
    SIN = "sin", Facts(OnnxOperator("Sin", 7))
    """`sin(x)` in radians; `sin` and `cos` are NaN beyond 2^22 in magnitude"""
    COS = "cos", Facts(OnnxOperator("Cos", 7))
    """`cos(x)` in radians"""
    ATAN = "atan", Facts(OnnxOperator("Atan", 7))
    """`atan(x)` in radians"""


@irdl_attr_definition
class FunctionNameAttr(EnumAttribute[Function]):
    """The name of a function, without parameters."""

    name = "graph.function_name"


@irdl_attr_definition
class FunctionAttr(ParametrizedAttribute):
    """
    An elementwise function, for example `#graph.function<clip, 0.0, 6.0>`. In
    `#graph.function<hard_swish, scale 0.75, offset 0.5>`, the result is multiplied by the scale,
    then the offset is added. A function that only clips has neither. `leaky_relu` can have a slope
    for each channel: `#graph.function<leaky_relu, 0.1, 0.25>` for two channels.
    """

    name = "graph.function"

    function_name: FunctionNameAttr
    constants: ArrayAttr[FloatData]
    scale_and_offset: ArrayAttr[FloatData]
    """The scale and the offset, or empty."""

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
    def data(self) -> Function:
        """The kind of function, such as `clip`, without parameters, scale and offset."""
        return self.function_name.data

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(p.data for p in self.constants)

    @property
    def slopes(self) -> tuple[float, ...] | None:
        """The slope of each channel, or `None` if the function is the same for all channels."""
        has_slopes = self.data is Function.LEAKY_RELU and len(self.constants) > 1
        return self.values if has_slopes else None

    def of_channel(self, channel: int) -> "FunctionAttr":
        """Return the function of a channel."""
        if self.slopes is None:
            return self
        return FunctionAttr(self.data, [self.slopes[channel]], self.affine)

    @property
    def affine(self) -> tuple[float, float] | None:
        """The scale and the offset that are applied to the result of the function, or `None`."""
        pair = tuple(p.data for p in self.scale_and_offset)
        return (pair[0], pair[1]) if pair else None

    @property
    def core(self) -> "FunctionAttr":
        """The function without scale and offset."""
        return FunctionAttr(self.data, self.values)

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """
        The lower and upper bound of a function that only clips, such as (0, inf) of ReLU; `None`
        for other functions.
        """
        clip = self.data.facts.clip
        return None if clip is None else clip(self.values)

    @property
    def is_homogeneous(self) -> bool:
        """
        Whether `f(a * x) = a * f(x)` for all `a > 0`, so that a scale can move through the
        function.
        """
        if self.affine is not None and self.affine[1] != 0.0:
            return False
        if (bounds := self.clip_range) is not None:
            return all(bound in (0.0, inf, -inf) for bound in bounds)
        return self.data.facts.is_homogeneous

    def verify(self) -> None:
        got, n = len(self.constants), len(self.data.facts.parameters)
        if got != n and self.slopes is None:
            raise VerifyException(f"{self.data} has {n} parameters, got {got}")
        if self.data is Function.CLIP and not self.values[0] <= self.values[1]:
            raise VerifyException(f"empty clip range [{self.values[0]}, {self.values[1]}]")
        if (count := len(self.scale_and_offset)) not in (0, 2):
            raise VerifyException(f"scale and offset must be given together, got {count} numbers")
        if count and self.data.facts.clip is not None:
            raise VerifyException(f"{self.data} has bounds and cannot have a scale or an offset")

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
                    parser.raise_error("only an offset can follow the scale")
                else:
                    values.append(_number(parser))
        return FunctionNameAttr(Function(name)), ArrayAttr(values), ArrayAttr(affine)

    def print_parameters(self, printer: Printer) -> None:
        fields = [self.data.value, *(decimal(v) for v in self.values)]
        if self.affine is not None:
            words = zip(("scale", "offset"), self.affine, strict=True)
            fields += [f"{word} {decimal(v)}" for word, v in words]
        printer.print_string(f"<{', '.join(fields)}>")


def _number(parser: AttrParser) -> FloatData:
    negative = parser.parse_optional_characters("-") is not None
    known = parser.parse_optional_keyword("inf")
    value = float("inf") if known else float(parser.parse_number())
    return FloatData(-value if negative else value)
