"""
Check the discardable attributes of `graph`, `mem` and `sparse`.

Passes attach them to operations, functions, arguments and results, and read them without a check of
the type. An unknown name with the prefix of these dialects is refused, because no pass would read
it. Plugins use a separate prefix. `refusals` is part of the verification of a module.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph.attributes import FunctionAttr
from ceras_ir.dialects.quant import UniformType
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.network.pixels import PIXELS, Pixels
from ceras_ir.network.storage import STORED_TYPE, WIDTHS
from ceras_ir.support.diagnostics import did_you_mean

MAX_FINITE_EXPONENT = 1000
"""The largest exponent of a scale, so that the product of two scales is a finite double."""

MAX_ZERO_POINT = 1 << 16


@dataclass(frozen=True)
class Rule:
    """The rule of an attribute: `holds` tests it, and `words` describe it in error messages."""

    words: str
    holds: Callable[[Attribute], bool]


def _word(*allowed: str) -> Rule:
    known = {StringAttr(word) for word in allowed}
    words = ", ".join(f'"{word}"' for word in allowed)
    return Rule(f"one of {words}", lambda a: a in known)


def _kind(words: str, kind: type[Attribute]) -> Rule:
    return Rule(words, lambda a: isinstance(a, kind))


def _integer(low: int, high: int) -> Rule:
    def holds(a: Attribute) -> bool:
        return isa(a, IntegerAttr) and low <= a.value.data <= high

    return Rule(f"an integer in [{low}, {high}]", holds)


def _integers(low: int, high: int) -> Rule:
    def holds(a: Attribute) -> bool:
        known = isa(a, DenseArrayBase[IntegerType])
        return known and all(low <= v <= high for v in a.get_values())

    return Rule(f"array<i64: ...> of integers in [{low}, {high}]", holds)


def _is_range(a: Attribute) -> bool:
    bounds = a.get_values() if isinstance(a, DenseArrayBase) else ()
    return len(bounds) == 2 and all(map(isfinite, bounds)) and bounds[0] <= bounds[1]


def _numbers(a: Attribute, kind: type[Attribute], *names: str) -> bool:
    return isinstance(a, DictionaryAttr) and all(isinstance(a.data.get(n), kind) for n in names)


_TEXT = _kind("text", StringAttr)
_EXPONENT = _integer(-MAX_FINITE_EXPONENT, MAX_FINITE_EXPONENT)
_EXPONENTS = _integers(-MAX_FINITE_EXPONENT, MAX_FINITE_EXPONENT)
_RANGE = Rule("array<f32: MIN, MAX>", _is_range)


def _is_affine(a: Attribute) -> bool:
    pair = list(a.get_values()) if isa(a, DenseArrayBase[IntegerType]) else []
    return len(pair) == 2 and abs(pair[0]) <= MAX_FINITE_EXPONENT and abs(pair[1]) <= MAX_ZERO_POINT


def _are_factors(a: Attribute) -> bool:
    return isa(a, DenseArrayBase[Float32Type]) and all(1 <= v < 2 for v in a.get_values())


ATTRIBUTE_RULES: Mapping[str, Rule] = {
    "graph.affine": Rule("array<i64: EXPONENT, ZERO_POINT>", _is_affine),
    "graph.equalized": _kind("unit", UnitAttr),
    "graph.exponent": _EXPONENT,
    "graph.float_reason": _TEXT,
    "graph.form": _word("table", "table16", "shifts", "float"),
    "graph.function": _kind("#graph.function", FunctionAttr),
    "graph.half_even": _kind("unit", UnitAttr),
    "graph.input_exponents": _EXPONENTS,
    "graph.input_range": _RANGE,
    "graph.labels": Rule(
        "a list of strings", lambda a: isa(a, ArrayAttr[StringAttr]) and len(a) > 0
    ),
    "graph.layer": _integer(0, (1 << 31) - 1),
    "graph.model_type": _word("float16", "float64"),
    "graph.name": _TEXT,
    PIXELS: Rule(
        "the conversion of pixels by take-images", lambda a: Pixels.of_attribute(a) is not None
    ),
    "graph.precision": _word(*WIDTHS, "f32", "f32,i16", "i16,f32"),
    "graph.range": _RANGE,
    "graph.requantizations": Rule(
        "counts before and after", lambda a: _numbers(a, IntegerAttr, "before", "after")
    ),
    "graph.result_exponents": _EXPONENTS,
    "graph.row_exponents": _EXPONENTS,
    "graph.row_factors": Rule("array<f32: ...> of factors in [1, 2)", _are_factors),
    "graph.snapped": _kind("unit", UnitAttr),
    "graph.state": _TEXT,
    STORED_TYPE: _kind("!quant.uniform", UniformType),
    "graph.stored_noise": Rule(
        "decibels before, after and measured",
        lambda a: _numbers(a, FloatAttr, "before", "after", "measured"),
    ),
    "graph.weight_bits": _integer(2, 8),
    "graph.weight_exponent": _EXPONENT,
    "graph.weight_noise": _kind("decibels", FloatAttr),
    "graph.zero_point": _integer(-MAX_ZERO_POINT, MAX_ZERO_POINT),
    mem.ALIGNMENT: _integer(1, 1 << 20),
    mem.ARENA: _kind("#mem.arena", mem.ArenaAttr),
    mem.BLOCK: Rule(
        "#mem.block, or a list of these for several results",
        lambda a: isinstance(a, mem.BlockAttr) or isa(a, ArrayAttr[mem.BlockAttr]),
    ),
    mem.CONTINUES: _kind("unit", UnitAttr),
    mem.COPIED: _TEXT,
    mem.COST: _TEXT,
    mem.DEVICE: _kind("#mem.device", mem.DeviceAttr),
    mem.REASON: _TEXT,
    MASK: _kind("#sparse.mask", MaskAttr),
    mem.REGIONS: Rule("a list of #mem.region", lambda a: isa(a, ArrayAttr[mem.RegionAttr])),
}


def _mask_refusal(op: Operation, mask: MaskAttr) -> str | None:
    from ceras_ir.dialects.graph import ConstantOp, LinearOperation

    if not isinstance(op, LinearOperation) or not isinstance(op.weights.owner, ConstantOp):
        return f"{MASK} requires a convolution or matrix product with constant weights"
    return None if op.weights.owner.is_elided else mask.refusal(op.weights.owner.nonzero())


def refusals(op: Operation) -> Iterator[str]:
    """
    Yield an error message for each invalid or unknown attribute of `op` with the prefix `graph`,
    `mem` or `sparse`, including attributes of the arguments and results of a function.
    """
    mask = op.attributes.get(MASK)
    if isinstance(mask, MaskAttr) and (text := _mask_refusal(op, mask)):
        yield text
    if twice := sorted(op.attributes.keys() & op.properties.keys()):
        yield f"'{twice[0]}' is both a property and an attribute: remove the attribute"
    places = [op.attributes]
    if isinstance(op, FuncOp):
        kind = op.function_type
        for name, values, entries in (
            ("arguments", kind.inputs, op.arg_attrs),
            ("results", kind.outputs, op.res_attrs),
        ):
            if entries is None:
                continue
            if len(entries) != len(values):
                yield f"has {len(values)} {name} and attributes of {len(entries)}"
            places += [entry.data for entry in entries]
    for attributes in places:
        for name, attribute in attributes.items():
            rule = ATTRIBUTE_RULES.get(name)
            if rule is not None and not rule.holds(attribute):
                yield f"{name} must be {rule.words}, got {attribute}"
            elif rule is None and name.partition(".")[0] in ("graph", "mem", "sparse"):
                yield f"unknown attribute '{name}'{did_you_mean(name, ATTRIBUTE_RULES)}"
