"""
What calibration knows about values, as discardable attributes in the IR.

`graph.range = array<f32: MIN, MAX>` is what was seen, `graph.exponent = E : i64` the power of
two chosen for it: the value is stored in steps of `2**E`, and `graph.zero_point = Z : i64` the
number that stands for zero, which is 0 without. `graph.affine = array<i64: E, Z>` is both, where a
zero point would store the value better. They belong to the result of the
operation that carries them, or to the argument whose attributes they are among.
"""

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ceras_ir.support.diagnostics import Finding, InputError, node_name

RANGE, EXPONENT, INPUT_RANGE = "graph.range", "graph.exponent", "graph.input_range"
"""Names of the attributes; `graph.input_range` declares what a network's input may hold."""

WEIGHT_EXPONENT = "graph.weight_exponent"
"""The exponent of the constant weights of a convolution or matrix product."""

ROW_EXPONENTS = "graph.row_exponents"
"""By how much the exponent of each output channel's weights differs from that; not positive."""

LAYER = "graph.layer"
"""A number that an operation keeps when it is quantized, for comparing it with its float form."""

EQUALIZED = "graph.equalized"
"""On a function whose channels stand for powers of two of what those of its model do."""

ZERO_POINT = "graph.zero_point"
"""The number that stands for zero."""

AFFINE = "graph.affine"
"""The exponent and the zero point of the least error, where a zero point is worth it."""

STATISTICS = (RANGE, EXPONENT, ZERO_POINT, AFFINE)
"""What describes one value and must follow it when another operation makes it."""


def copy_statistics(source: Operation, target: Operation) -> None:
    """`target` now makes the value of `source`: what was known of its own no longer holds."""
    drop_statistics(target)
    for name in STATISTICS:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]


def drop_statistics(op: Operation) -> None:
    """Forget what was known of the results of `op`."""
    for name in STATISTICS:
        op.attributes.pop(name, None)


def forget(value: SSAValue) -> None:
    """The same of one value, which may be an argument."""
    for name in STATISTICS:
        set_attribute(value, name, None)


def attributes_of(value: SSAValue) -> Mapping[str, Attribute]:
    """The attributes that describe `value`."""
    if not isinstance(value, BlockArgument):
        assert isinstance(value.owner, Operation)
        return value.owner.attributes
    function = value.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return {}
    return function.arg_attrs.data[value.index].data


def set_attribute(value: SSAValue, name: str, attribute: Attribute | None) -> None:
    """Attach an attribute to the operation or argument that makes `value`; None removes it."""
    if not isinstance(value, BlockArgument):
        assert isinstance(value.owner, Operation)
        if attribute is None:
            value.owner.attributes.pop(name, None)
        else:
            value.owner.attributes[name] = attribute
        return
    function = value.owner.parent_op()
    assert isinstance(function, FuncOp)
    old = function.arg_attrs or ArrayAttr([DictionaryAttr({}) for _ in value.owner.args])
    entries = [dict(entry.data) for entry in old]
    entries[value.index].pop(name, None)
    if attribute is not None:
        entries[value.index][name] = attribute
    if function.arg_attrs is not None or any(entries):
        function.arg_attrs = ArrayAttr([DictionaryAttr(entry) for entry in entries])


def interval(value: SSAValue, name: str = RANGE) -> tuple[float, float] | None:
    """The interval recorded for `value` under `name`; a malformed one is an error."""
    attribute = attributes_of(value).get(name)
    if attribute is None:
        return None
    if isinstance(attribute, DenseArrayBase):
        ends = [float(v) for v in attribute.get_values()]
        if len(ends) == 2 and float("-inf") < ends[0] <= ends[1] < float("inf"):
            return ends[0], ends[1]
    raise _malformed(value, f"{name} must be array<f32: MIN, MAX>, got {attribute}")


def set_range(value: SSAValue, low: float, high: float) -> None:
    """Record what was seen of `value`."""
    set_attribute(value, RANGE, DenseArrayBase.from_list(f32, [low, high]))


def exponent(value: SSAValue) -> int | None:
    """The exponent recorded for `value`."""
    return _integer(value, EXPONENT)


def _integer(value: SSAValue, name: str) -> int | None:
    attribute = attributes_of(value).get(name)
    if attribute is None or isinstance(attribute, IntegerAttr):
        return None if attribute is None else attribute.value.data
    raise _malformed(value, f"{name} must be an integer, got {attribute}")


def set_exponent(value: SSAValue, chosen: int) -> None:
    """Record the exponent chosen for `value`."""
    set_attribute(value, EXPONENT, IntegerAttr(chosen, i64))


def zero_point(value: SSAValue) -> int:
    """The zero point chosen for `value`; 0 where none was."""
    return _integer(value, ZERO_POINT) or 0


def set_zero_point(value: SSAValue, chosen: int) -> None:
    """Record the zero point chosen for `value`."""
    set_attribute(value, ZERO_POINT, IntegerAttr(chosen, i64) if chosen else None)


def affine(value: SSAValue) -> tuple[int, int] | None:
    """The exponent and the zero point that calibration would give `value`."""
    attribute = attributes_of(value).get(AFFINE)
    if not isinstance(attribute, DenseArrayBase):
        return None
    exponent, point = (int(v) for v in attribute.get_values())
    return exponent, point


def set_affine(value: SSAValue, chosen: tuple[int, int] | None) -> None:
    """Record the exponent and the zero point that would store `value` best."""
    made = None if chosen is None else DenseArrayBase.from_list(i64, list(chosen))
    set_attribute(value, AFFINE, made)


def weight_exponent(op: Operation) -> int | None:
    """The exponent chosen for the constant weights of `op`."""
    attribute = op.attributes.get(WEIGHT_EXPONENT)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def row_exponents(op: Operation) -> tuple[int, ...] | None:
    """What to add to `weight_exponent` for each output channel, if they differ."""
    attribute = op.attributes.get(ROW_EXPONENTS)
    if not isinstance(attribute, DenseArrayBase):
        return None
    return tuple(int(v) for v in attribute.get_values())


def network_values(block: Block) -> Iterator[SSAValue]:
    """Every value of a network: its arguments, then the results of its operations."""
    yield from block.args
    for op in block.ops:
        yield from op.results


def missing_range(value: SSAValue) -> InputError:
    """What is wrong when a value has no exponent although it needs one."""
    return _malformed(value, f"no {EXPONENT}: run --calibrate first")


def _malformed(value: SSAValue, message: str) -> InputError:
    if isinstance(value, BlockArgument):
        return InputError([Finding(value.name_hint or f"argument {value.index}", "input", message)])
    assert isinstance(value.owner, Operation)
    return InputError([Finding(node_name(value.owner), value.owner.name, message)])
