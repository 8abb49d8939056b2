"""
Einstein sums of one or two operands: transposed, so that the labels that both have and the result
keeps are the batch, and those that it drops are inside, they are products of matrices.
"""

from collections.abc import Sequence
from math import prod

from ceras_ir.dialects.graph import Reduce
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.matrix import batched_product
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value


def _labels(node: Node) -> tuple[list[str], str]:
    """The labels of each operand, and of the result."""
    equation = node.string("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    operands = left.split(",")
    if not arrow:
        every = "".join(operands)
        result = "".join(sorted(label for label in set(every) if every.count(label) == 1))
    return operands, result


@rule("Einsum")
def plain_equation(node: Node) -> str | None:
    """one or two operands, whose labels are letters, each once in an operand"""
    operands, result = _labels(node)
    if len(operands) > 2:
        return f"got {len(operands)} operands; use several nodes"
    for labels in (*operands, result):
        if not all(label.isalpha() for label in labels):
            return f"got '{labels}'; write all labels out"
        if len(set(labels)) < len(labels):
            return f"got '{labels}'; take the diagonal another way"
    return None


@operator("Einsum")
def einsum(node: Node, emitter: Emitter) -> Value:
    """A product of matrices, one for each entry of the dimensions that all have."""
    operands, result = _labels(node)
    if len(node.inputs) != len(operands):
        raise node.wrong(f"{len(node.inputs)} operands, expected {len(operands)}")
    extents: dict[str, int] = {}
    for index, labels in enumerate(operands):
        shape = emitter.shape(index)
        fits = len(shape) == len(labels)
        if not fits or any(
            extents.setdefault(k, n) != n for k, n in zip(labels, shape, strict=True)
        ):
            raise node.wrong(f"shape {list(shape)} does not fit '{labels}'")
    if unknown := set(result) - set(extents):
        raise node.wrong(f"the result has '{min(unknown)}', which no operand has")
    values = [_summed(emitter, i, operands, result) for i in range(len(operands))]
    if len(values) == 1:
        (value, labels), *_ = values
        return _ordered(emitter, value, labels, result)
    (a, first), (b, second) = values
    batch = [k for k in first if k in second and k in result]
    inner = [k for k in first if k in second and k not in result]
    rows, columns = [k for k in first if k not in second], [k for k in second if k not in first]
    sizes = [prod(extents[k] for k in part) for part in (batch, rows, inner, columns)]
    left = emitter.reshaped(_ordered(emitter, a, first, [*batch, *rows, *inner]), sizes[:3])
    shape = (sizes[0], *sizes[2:])
    right = emitter.reshaped(_ordered(emitter, b, second, [*batch, *inner, *columns]), shape)
    product = batched_product(emitter, left, right)
    labels = [*batch, *rows, *columns]
    return _ordered(
        emitter, emitter.reshaped(product, [extents[k] for k in labels]), labels, result
    )


def _summed(
    emitter: Emitter, index: int, operands: Sequence[str], result: str
) -> tuple[Value, list[str]]:
    """An operand without the labels that nothing else has, and the labels that are left."""
    value, labels = emitter.value(index), operands[index]
    others = {*result, *"".join(o for i, o in enumerate(operands) if i != index)}
    lost = [i for i, label in enumerate(labels) if label not in others]
    if not lost:
        return value, list(labels)
    value = Composer(emitter).reduce(Reduce.SUM, value, lost)
    kept = [label for label in labels if label in others]
    shape = [n for n, label in zip(shape_of_value(value), labels, strict=True) if label in others]
    return emitter.reshaped(value, shape), kept


def _ordered(emitter: Emitter, value: Value, labels: Sequence[str], wanted: Sequence[str]) -> Value:
    return emitter.transposed(value, [labels.index(label) for label in wanted])
