"""
Import elementwise operators on extents that data decide.

Operands with an extent of 1 are broadcast, also if it is 1 only for some data. ONNX requires other
extents to be equal.
"""

from collections.abc import Sequence

from ceras_ir.dialects.graph import Compare, Function
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear
from ceras_ir.frontends.onnx.emission.folding import ELEMENTWISE
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.extents.registry import refused, sized, standard
from ceras_ir.frontends.onnx.extents.scalars import chosen, range_of, scalar
from ceras_ir.frontends.onnx.extents.statements import along, bounded, resized, taken_within
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.activation import COMPOSED

FUNCTIONS = {f.facts.onnx.name for f in Function if f.facts.onnx is not None}

OTHERS = (
    *("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CastLike", "Dropout"),
    *("Erfc", "Identity", "IsInf", "IsNaN", "Mean", "PRelu", "Selu", "Swish"),
)


@sized(*sorted({*ELEMENTWISE, *FUNCTIONS, *COMPOSED, *OTHERS}))
def elementwise(node: Node, emitter: Emitter) -> Value:
    """Import an elementwise operator with any number of operands, which are broadcast."""
    if node.operator == "Dropout":
        return emitter.value(0)
    scalars = 1 if node.operator in ("CastLike", "Clip") else len(node.inputs)
    indices = [i for i in range(scalars) if node.has_input(i)]
    operands, extents = aligned(emitter, [emitter.value(i) for i in indices])
    result = standard(node, emitter, dict(zip(indices, operands, strict=True)))
    return bounded(emitter, result, extents)


def aligned(emitter: Emitter, values: Sequence[Value]) -> tuple[list[Value], tuple[Extent, ...]]:
    """
    Return `values` with shapes that broadcast to a common shape, and the extents of the result. The
    elements of an extent of 1 are repeated where they are broadcast.
    """
    known = [emitter.table.of(value) for value in values]
    rank = max(map(len, known))
    result: list[Extent] = []
    values = list(values)
    for axis in range(rank):
        places = [(k, axis - rank + len(e)) for k, e in enumerate(known)]
        places = [(k, i) for k, i in places if i >= 0 and known[k][i] != 1]
        extents = [known[k][i] for k, i in places]
        if not extents:
            result.append(1)
            continue
        shapes = [shape_of_value(values[k])[i] for k, i in places]
        numbers = [e for e in extents if not isinstance(e, Linear)]
        if len(set(extents)) == 1:
            count = min(shapes)
            for k, i in places:
                values[k] = resized(emitter, values[k], i, count)
            result.append(extents[0])
            continue
        common = numbers[0] if numbers else _common(emitter, extents)
        count = numbers[0] if numbers else max(shapes)
        for (k, i), extent in zip(places, extents, strict=True):
            if isinstance(extent, Linear):
                values[k] = taken_within(emitter, values[k], i, along(emitter, count), extent)
        result.append(common)
    return values, tuple(result)


def _common(emitter: Emitter, extents: Sequence[Extent]) -> Extent:
    """Return the first of `extents` that is not 1, at run time."""
    common = extents[0]
    for extent in extents[1:]:
        if range_of(emitter, common)[0] <= 1:
            one = emitter.compare(Compare.EQUAL, scalar(emitter, common), scalar(emitter, 1))
            common = chosen(emitter, one, extent, common)
    return common


@sized("BatchNormalization")
def batch_normalization(node: Node, emitter: Emitter) -> Value:
    """Import BatchNormalization, which scales each channel."""
    extents = emitter.table.of(emitter.value(0))
    if isinstance(extents[1], Linear):
        raise refused(emitter, f"of '{node.inputs[0]}'")
    return bounded(emitter, standard(node, emitter, {}), extents)
