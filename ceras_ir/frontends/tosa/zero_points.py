"""
Find the zero points that consumers of values subtract.

Inputs and results without a zero point of their producer get this zero point, so that the consumer
needs no conversion.
"""

from __future__ import annotations

from collections.abc import Mapping

from ceras_ir.frontends.tosa.text.attributes import Elements, TensorText
from ceras_ir.frontends.tosa.text.reader import TextFunction, TextModule, TextOperation
from ceras_ir.frontends.tosa.values import STORAGE, stored_type

ZERO_POINTS = {
    "avg_pool2d": 1, "conv2d": 3, "conv3d": 3, "depthwise_conv2d": 3, "negate": 1, "rescale": 3,
    "transpose_conv2d": 3, "matmul": 2,
}  # fmt: skip
"""The operand that is the zero point of operand 0."""

KEEPS_ELEMENTS = frozenset(
    (
        *("concat", "clamp", "gather", "identity", "max_pool2d", "pad", "reshape", "reverse"),
        *("slice", "tile", "transpose", "reduce_max", "reduce_min"),
    )
)
"""Operations whose result has the zero point of operand 0."""


def zero_points(module: TextModule, function: TextFunction) -> dict[str, int]:
    """
    Return the zero point that consumers subtract from a value, by the name of the value in
    `function`. Only constant zero points count; the consumer may follow after data movement.
    """
    ops = function.operations or []
    constants = {op.results[0]: op for op in ops if op.name == "tosa.const" and op.results}
    found: dict[str, int] = {}
    for op in reversed(ops):
        kind = op.name.removeprefix("tosa.")
        if not op.operands:
            continue
        if (index := ZERO_POINTS.get(kind)) is not None:
            point = _constant_point(module, op, index, constants)
            if point is not None:
                found[op.operands[0]] = point
        elif kind in KEEPS_ELEMENTS and op.results and op.results[0] in found:
            moved = op.operands if kind == "concat" else op.operands[:1]
            for operand in moved:
                found.setdefault(operand, found[op.results[0]])
    return found


def _constant_point(
    module: TextModule,
    op: TextOperation,
    index: int,
    constants: Mapping[str, TextOperation],
) -> int | None:
    if index < len(op.operands):
        constant = constants.get(op.operands[index])
        value = constant and constant.attributes.get("values", constant.attributes.get("value"))
        if not isinstance(value, Elements) or value.type.element not in STORAGE:
            return None
        array = module.array(value)
        point = int(array.reshape(-1)[0]) if array.size == 1 else 0
    else:
        known = op.attributes.get("quantization_info")
        entries = known if isinstance(known, dict) else op.attributes
        given = entries.get("input_zp", entries.get("a_zp", 0))
        point = given if isinstance(given, int) else 0
    kind = op.operand_types[0]
    if not isinstance(kind, TensorText) or kind.element not in STORAGE:
        return None
    element = stored_type(STORAGE[kind.element])
    return point if element.low <= point <= element.high else None
