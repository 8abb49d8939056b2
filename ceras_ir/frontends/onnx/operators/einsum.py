"""
Einstein sums. Two operands, transposed so that the labels that both have and the result keeps are
the batch, and those that it drops are inside, are products of matrices, or of elements where no
label is inside. More operands are multiplied one after the other, from the left.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod

from ceras_ir.dialects.graph import Reduce
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.matrix import batched_product
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.values import Value

DOTS = "..."
"""All dimensions of an operand that no label names: they are batches."""


@dataclass(frozen=True)
class Term:
    """A value with a label for each dimension."""

    value: Value
    labels: Sequence[str]

    def ordered(self, emitter: Emitter, wanted: Sequence[str]) -> Value:
        return emitter.transposed(self.value, [self.labels.index(label) for label in wanted])

    def without(self, emitter: Emitter, lost: Collection[str]) -> "Term":
        """The same without some dimensions, each of one element."""
        pairs = zip(self.labels, shape_of_value(self.value), strict=True)
        kept = {label: n for label, n in pairs if label not in lost}
        return Term(emitter.reshaped(self.value, list(kept.values())), list(kept))


def _labels(node: Node) -> tuple[list[str], str]:
    """The labels of each operand, and of the result."""
    equation = node.string("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    operands = left.split(",")
    if not arrow:
        every = left.replace(DOTS, "").replace(",", "")
        once = sorted(label for label in set(every) if every.count(label) == 1)
        result = "".join([DOTS if DOTS in left else "", *once])
    return operands, result


@rule("Einsum")
def plain_equation(node: Node) -> str | None:
    """labels are letters or dots for the rest, each once in an operand"""
    operands, result = _labels(node)
    for labels in (*operands, result):
        if not all(label.isalpha() for label in labels.replace(DOTS, "", 1)):
            return f"got '{labels}'; name each dimension by a letter"
        if len(set(labels) - {"."}) < len(labels.replace(DOTS, "", 1)):
            return f"got '{labels}'; take the diagonal another way"
    return None


@operator("Einsum")
def einsum(node: Node, emitter: Emitter) -> Value:
    """Products of matrices, one for each entry of the dimensions that all have."""
    operands, result = _labels(node)
    if len(node.inputs) != len(operands):
        raise node.wrong(f"{len(node.inputs)} operands, expected {len(operands)}")
    ranks = [len(emitter.shape(i)) for i in range(len(operands))]
    *lists, wanted = _written_out(node, [*operands, result], ranks)
    extents: dict[str, int] = {}
    for index, labels in enumerate(lists):
        shape = emitter.shape(index)
        if len(shape) != len(labels):
            raise node.wrong(f"shape {list(shape)} does not fit '{operands[index]}'")
        for label, n in zip(labels, shape, strict=True):
            known = extents.setdefault(label, n)
            if 1 < known != n > 1:
                raise node.wrong(f"shape {list(shape)} does not fit '{operands[index]}'")
            extents[label] = max(known, n)
    if unknown := set(wanted) - set(extents):
        raise node.wrong(f"the result has '{min(unknown)}', which no operand has")
    terms = [
        _summed(emitter, Term(emitter.value(i), labels), others, extents)
        for i, labels in enumerate(lists)
        for others in [{*wanted, *chain.from_iterable(lists[:i] + lists[i + 1 :])}]
    ]
    total, *rest = terms
    for i, term in enumerate(rest):
        kept = {*wanted, *chain.from_iterable(t.labels for t in rest[i + 1 :])}
        total = _product(emitter, total, term, kept, extents)
    return total.ordered(emitter, wanted)


def _written_out(node: Node, texts: Sequence[str], ranks: Sequence[int]) -> Iterator[Sequence[str]]:
    """Labels with one of its own for each dimension that dots stand for, the last ones alike."""
    counts = [
        rank - len(text) + len(DOTS)
        for text, rank in zip(texts, ranks, strict=False)
        if DOTS in text
    ]
    if min(counts, default=0) < 0:
        raise node.wrong(f"an operand has fewer dimensions than '{node.string('equation', '')}'")
    batch = [f"{DOTS}{i}" for i in reversed(range(max(counts, default=0)))]
    left = iter(counts)
    for text in texts:
        before, dots, behind = text.partition(DOTS)
        count = next(left, len(batch)) if dots else 0
        yield [*before, *batch[len(batch) - count :], *behind]


def _summed(
    emitter: Emitter, term: Term, others: Collection[str], extents: Mapping[str, int]
) -> Term:
    """An operand without the labels that nothing else has, and those over which it is repeated."""
    shape = dict(zip(term.labels, shape_of_value(term.value), strict=True))
    lost = [i for i, label in enumerate(term.labels) if label not in others]
    repeated = {k for k, n in shape.items() if n < extents[k] and k in others}
    value = Composer(emitter).reduce(Reduce.SUM, term.value, lost) if lost else term.value
    return Term(value, term.labels).without(emitter, {*repeated, *(term.labels[i] for i in lost)})


def _product(
    emitter: Emitter, a: Term, b: Term, kept: Collection[str], extents: Mapping[str, int]
) -> Term:
    """The product of two, summed over the labels of both that nothing behind them has."""
    batch = [k for k in a.labels if k in b.labels and k in kept]
    inner = [k for k in a.labels if k in b.labels and k not in kept]
    rows = [k for k in a.labels if k not in b.labels]
    columns = [k for k in b.labels if k not in a.labels]
    labels = [*batch, *rows, *columns]
    left, right = (
        t.ordered(emitter, [*batch, *part])
        for t, part in ((a, [*rows, *inner]), (b, [*inner, *columns]))
    )
    if not inner:
        ones = [extents[k] for k in (*batch, *rows)] + [1] * len(columns)
        wide = [extents[k] for k in batch] + [1] * len(rows) + [extents[k] for k in columns]
        compose = Composer(emitter)
        return Term(
            compose.mul(emitter.reshaped(left, ones), emitter.reshaped(right, wide)), labels
        )
    sizes = [prod(extents[k] for k in part) for part in (batch, rows, inner, columns)]
    product = batched_product(
        emitter,
        emitter.reshaped(left, sizes[:3]),
        emitter.reshaped(right, (sizes[0], *sizes[2:])),
    )
    return Term(emitter.reshaped(product, [extents[k] for k in labels]), labels)
