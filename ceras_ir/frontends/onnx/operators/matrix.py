"""
Matrix products and Einstein sums. `graph.matmul` takes [M, K] and transposed weights [N, K].

Two operands of an Einstein sum, transposed so that the labels that both have and the result keeps
are the batch, and those that it drops are inside, are products of matrices, or of elements where no
label is inside. More operands are multiplied one after the other, from the left.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, prod

import numpy as np

from ceras_ir.dialects.graph import Binary, Reduce
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.node import Node


@operator("MatMul")
def matmul(node: Node, emitter: Emitter) -> Value:
    """Leading dimensions of the first operand are rows; the second one is a single matrix."""
    return matrix_product(emitter, emitter.value(0), emitter.value(1))


def matrix_product(emitter: Emitter, a: Value, b: Value) -> Value:
    """The product as numpy has it, to which vectors are matrices of one row or column."""
    node, left, right = emitter.node, shape_of_value(a), shape_of_value(b)
    if not left or not right:
        raise node.wrong(f"scalar operand: shapes {list(left)} and {list(right)}")
    columns, rows = left[-1], right[-2:][0]
    if columns != rows:
        raise node.wrong(f"{list(left)} times {list(right)}: {columns} columns, expected {rows}")
    if prod(right[:-2]) != 1:
        return _batched(emitter, a, b)
    outputs = right[-1] if len(right) > 1 else 1
    weights = emitter.transposed(emitter.reshaped(b, (rows, outputs)), (1, 0))
    flat = emitter.reshaped(a, (prod(left[:-1]), columns))
    product = emitter.product(flat, weights)
    ones = right[:-2] if len(right) > len(left) else ()
    shape = (*ones[: len(right) - len(left)], *left[:-1], *right[-1:][: len(right) - 1])
    return emitter.reshaped(product, shape)


MAX_BATCH = 1 << 10
"""Products of matrices of which one `MatMul` may consist."""

MAX_NUMBERS = 1 << 22
"""Products of numbers of which one may consist where its batch is larger."""


def _batched(emitter: Emitter, a: Value, b: Value) -> Value:
    """Products of matrices, of which the first may be a vector: a matrix of one row."""
    left = shape_of_value(a)
    rows = emitter.reshaped(a, (1, *left) if len(left) == 1 else left)
    product = batched_product(emitter, rows, b)
    *batch, _, n = shape_of_value(product)
    return product if len(left) > 1 else emitter.reshaped(product, (*batch, n))


def batched_product(emitter: Emitter, a: Value, b: Value) -> Value:
    """One product for every matrix of the batch, over which both operands are broadcast."""
    node = emitter.node
    shape_a, shape_b = shape_of_value(a), shape_of_value(b)
    batch = broadcast_shape(shape_a[:-2], shape_b[:-2])
    if batch is None:
        raise node.wrong(f"batches of {list(shape_a)} and {list(shape_b)} do not broadcast")
    (m, k), n = shape_a[-2:], shape_b[-1]
    if prod(batch) > MAX_BATCH:
        if prod(batch) * m * k * n > MAX_NUMBERS:
            raise node.unsupported(
                f"a batch of {prod(batch)} products; at most {MAX_BATCH} are taken: split the node"
            )
        return _by_elements(emitter, a, b)
    rows = emitter.reshaped(a, (prod(shape_a[:-2]), m, k))
    columns = emitter.transposed(emitter.reshaped(b, (prod(shape_b[:-2]), k, n)), (0, 2, 1))
    numbers = [
        np.broadcast_to(np.arange(prod(s)).reshape(s), batch).reshape(-1).tolist()
        for s in (shape_a[:-2], shape_b[:-2])
    ]
    products: list[Value] = []
    for i, j in zip(*numbers, strict=True):
        x = emitter.reshaped(emitter.part(rows, 0, i, 1), (m, k))
        w = emitter.reshaped(_matrix(emitter, columns, j), (n, k))
        products.append(emitter.reshaped(emitter.product(x, w), (1, m, n)))
    return emitter.reshaped(emitter.joined(products, 0), (*batch, m, n))


def _by_elements(emitter: Emitter, a: Value, b: Value) -> Value:
    """All products of numbers, then their sums: for many products of small matrices."""
    (*first, m, k), (*second, _, n) = shape_of_value(a), shape_of_value(b)
    rows = emitter.reshaped(a, (*first, m, 1, k))
    last = len(second)
    turned = emitter.transposed(b, (*range(last), last + 1, last))
    columns = emitter.reshaped(turned, (*second, 1, n, k))
    products = emitter.mul(rows, columns)
    *kept, _ = shape = shape_of_value(products)
    return emitter.reshaped(emitter.reduce(Reduce.SUM, products, [len(shape) - 1]), kept)


def _matrix(emitter: Emitter, batch: Value, index: int) -> Value:
    """One matrix of a batch; of a constant one, a constant."""
    if not isinstance(batch, Constant):
        return emitter.part(batch, 0, index, 1)
    array = batch.load()[index]
    return Constant.of(f"{batch.name}/{index}", np.ascontiguousarray(array))


@operator("Det")
def determinant(node: Node, emitter: Emitter) -> Value:
    """A sum of products, of matrices of at most 3 rows."""
    *batch, n, columns = emitter.shape(0)
    if n != columns or n > MAX_DETERMINANT:
        raise node.unsupported(
            f"of {n} by {columns}; square matrices of at most {MAX_DETERMINANT} rows are taken"
        )
    count = prod(batch)
    flat = emitter.reshaped(emitter.value(0), (count, n * n))
    entry = [[emitter.part(flat, 1, i * n + j, 1) for j in range(n)] for i in range(n)]

    def minor(rows: Sequence[int], kept: Sequence[int]) -> Value:
        if len(rows) == 1:
            return entry[rows[0]][kept[0]]
        total: Value | None = None
        for k, column in enumerate(kept):
            rest = minor(rows[1:], [c for c in kept if c != column])
            term = emitter.mul(entry[rows[0]][column], rest)
            if total is None:
                total = term
            else:
                total = emitter.sub(total, term) if k % 2 else emitter.add(total, term)
        assert total is not None
        return total

    return emitter.reshaped(minor(range(n), range(n)), batch)


MAX_DETERMINANT = 3
"""Rows; the terms of larger ones are many, and cancel."""


@operator("Gemm")
def gemm(node: Node, emitter: Emitter) -> Value:
    """`alpha * A' * B' + beta * C`; factors go into constants where they meet one."""
    node.ignore(*("broadcast",) * (node.opset < 7))
    a, b = emitter.value(0), emitter.value(1)
    for value in (a, b):
        if len(shape_of_value(value)) != 2:
            raise node.wrong(f"matrix expected, got shape {list(shape_of_value(value))}")
    a = emitter.transposed(a, (1, 0)) if node.flag("transA") else a
    weights = b if node.flag("transB") else emitter.transposed(b, (1, 0))
    (m, k), (n, wk) = shape_of_value(a), shape_of_value(weights)
    if k != wk:
        raise node.wrong(f"[{m}, {k}] times [{wk}, {n}]: {k} columns, expected {wk}")
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    weights = scaled(emitter, weights, alpha, "weights")
    if not node.has_input(2) or beta == 0.0:
        return emitter.product(a, weights)
    c = scaled(emitter, emitter.value(2), beta, "bias")
    shape = shape_of_value(c)
    if len(shape) > 2 or any(e not in (1, f) for e, f in zip(shape[::-1], (n, m), strict=False)):
        raise node.wrong(f"C of shape {list(shape)} does not broadcast to [{m}, {n}]")
    if shape[-1:] == (n,) and prod(shape[:-1]) == 1:
        return emitter.product(a, weights, emitter.reshaped(c, (n,)))
    if isinstance(c, Constant) and prod(shape) == 1:
        # One number for all channels is a bias of equal entries.
        entries = np.broadcast_to(c.load().reshape(()), (n,))
        return emitter.product(a, weights, Constant.of(c.name, entries))
    return emitter.binary(Binary.ADD, emitter.product(a, weights), c)


def scaled(emitter: Emitter, value: Value, factor: float, suffix: str) -> Value:
    """`factor * value`, folded into a constant."""
    if factor == 1.0:
        return value
    if isinstance(value, QuantizedConstant) and 0.0 < factor < inf:
        return value.scaled(factor)
    scale = np.float32(factor)
    if isinstance(value, Constant) and value.dtype == np.float32:
        return emitter.constant(value.load().astype(np.float32, copy=False) * scale, suffix)
    return emitter.binary(Binary.MUL, value, emitter.constant(np.array(scale), "factor"))


DOTS = "..."
"""All dimensions of an operand that no label names: they are batches."""


@dataclass(frozen=True)
class EinsumTerm:
    """A value with a label for each dimension."""

    value: Value
    labels: Sequence[str]

    def ordered(self, emitter: Emitter, wanted: Sequence[str]) -> Value:
        return emitter.transposed(self.value, [self.labels.index(label) for label in wanted])

    def without(self, emitter: Emitter, lost: Collection[str]) -> "EinsumTerm":
        """The same without some dimensions, each of one element."""
        pairs = zip(self.labels, shape_of_value(self.value), strict=True)
        kept = {label: n for label, n in pairs if label not in lost}
        return EinsumTerm(emitter.reshaped(self.value, list(kept.values())), list(kept))


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
        _summed(emitter, EinsumTerm(emitter.value(i), labels), others, extents)
        for i, labels in enumerate(lists)
        for others in [{*wanted, *chain.from_iterable(lists[:i] + lists[i + 1 :])}]
    ]
    total, *rest = terms
    for i, term in enumerate(rest):
        kept = {*wanted, *chain.from_iterable(t.labels for t in rest[i + 1 :])}
        total = _product_of_terms(emitter, total, term, kept, extents)
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
    emitter: Emitter, term: EinsumTerm, others: Collection[str], extents: Mapping[str, int]
) -> EinsumTerm:
    """An operand without the labels that nothing else has, and those over which it is repeated."""
    shape = dict(zip(term.labels, shape_of_value(term.value), strict=True))
    lost = [i for i, label in enumerate(term.labels) if label not in others]
    repeated = {k for k, n in shape.items() if n < extents[k] and k in others}
    value = emitter.reduce(Reduce.SUM, term.value, lost) if lost else term.value
    return EinsumTerm(value, term.labels).without(
        emitter, {*repeated, *(term.labels[i] for i in lost)}
    )


def _product_of_terms(
    emitter: Emitter,
    a: EinsumTerm,
    b: EinsumTerm,
    kept: Collection[str],
    extents: Mapping[str, int],
) -> EinsumTerm:
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
        return EinsumTerm(
            emitter.mul(emitter.reshaped(left, ones), emitter.reshaped(right, wide)), labels
        )
    sizes = [prod(extents[k] for k in part) for part in (batch, rows, inner, columns)]
    product = batched_product(
        emitter, emitter.reshaped(left, sizes[:3]), emitter.reshaped(right, (sizes[0], *sizes[2:]))
    )
    return EinsumTerm(emitter.reshaped(product, [extents[k] for k in labels]), labels)
