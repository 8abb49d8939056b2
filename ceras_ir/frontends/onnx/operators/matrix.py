"""
Import matrix products and Einstein sums. `graph.matmul` multiplies [M, K] by weights [N, K].

In an Einstein sum of two operands, common labels in the result form the batch, and other common
labels are summed. The operands are transposed so that the sum is a batch of matrix products, or an
elementwise product if no label is summed. Further operands are multiplied from left to right.
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
    """Import MatMul."""
    a, b = emitter.value(0), emitter.value(1)
    if not emitter.is_float(a) and not emitter.is_float(b):
        return _integer_product(node, emitter, a, b)
    return matrix_product(emitter, a, b)


def _integer_product(node: Node, emitter: Emitter, a: Value, b: Value) -> Value:
    """Return the matrix product of integers without a scale. Sums wrap around."""
    left, right = shape_of_value(a), shape_of_value(b)
    if min(len(left), len(right)) < 2 or left[-1] != right[-2]:
        raise node.wrong(f"{list(left)} times {list(right)}")
    batch = broadcast_shape(left[:-2], right[:-2])
    if batch is None:
        raise node.wrong(f"batches of {list(left)} and {list(right)} do not broadcast")
    if prod(batch) * prod(left[-2:]) * right[-1] > MAX_SCALAR_PRODUCTS:
        raise node.unsupported(
            f"a product of integers of {list(left)} and {list(right)}: insert a Cast to float"
        )
    return _elementwise_product(emitter, a, b)


def matrix_product(emitter: Emitter, a: Value, b: Value) -> Value:
    """
    Return the product of `a` and `b` as numpy's matmul: vectors are matrices of a single row or
    column, and leading dimensions are a batch.
    """
    node, left, right = emitter.node, shape_of_value(a), shape_of_value(b)
    if not left or not right:
        raise node.wrong(f"scalar operand: shapes {list(left)} and {list(right)}")
    columns, rows = left[-1], right[-2:][0]
    if columns != rows:
        raise node.wrong(f"{list(left)} times {list(right)}: {columns} columns, expected {rows}")
    if prod(right[:-2]) != 1:
        if len(left) > 1:
            return batched_product(emitter, a, b)
        product = batched_product(emitter, emitter.reshaped(a, (1, *left)), b)
        *batch, _, n = shape_of_value(product)
        return emitter.reshaped(product, (*batch, n))
    outputs = right[-1] if len(right) > 1 else 1
    weights = emitter.transposed(emitter.reshaped(b, (rows, outputs)), (1, 0))
    flat = emitter.reshaped(a, (prod(left[:-1]), columns))
    product = emitter.product(flat, weights)
    ones = right[:-2] if len(right) > len(left) else ()
    shape = (*ones[: len(right) - len(left)], *left[:-1], *right[-1:][: len(right) - 1])
    return emitter.reshaped(product, shape)


MAX_BATCH = 1 << 10
"""Maximum number of matrix products of a `MatMul`."""

MAX_SCALAR_PRODUCTS = 1 << 22
"""Maximum number of scalar products of a `MatMul` with a larger batch."""


def batched_product(emitter: Emitter, a: Value, b: Value) -> Value:
    """
    Return the matrix product for each index of the batch. The leading dimensions of both operands
    are broadcast.
    """
    node = emitter.node
    shape_a, shape_b = shape_of_value(a), shape_of_value(b)
    batch = broadcast_shape(shape_a[:-2], shape_b[:-2])
    if batch is None:
        raise node.wrong(f"batches of {list(shape_a)} and {list(shape_b)} do not broadcast")
    (m, k), n = shape_a[-2:], shape_b[-1]
    if prod(batch) > MAX_BATCH:
        if prod(batch) * m * k * n > MAX_SCALAR_PRODUCTS:
            raise node.unsupported(
                f"a batch of {prod(batch)} products, expected at most {MAX_BATCH}: split the node"
            )
        return _elementwise_product(emitter, a, b)
    rows = emitter.reshaped(a, (prod(shape_a[:-2]), m, k))
    columns = emitter.transposed(emitter.reshaped(b, (prod(shape_b[:-2]), k, n)), (0, 2, 1))
    numbers = [
        np.broadcast_to(np.arange(prod(s)).reshape(s), batch).reshape(-1).tolist()
        for s in (shape_a[:-2], shape_b[:-2])
    ]
    products: list[Value] = []
    for i, j in zip(*numbers, strict=True):
        x = emitter.reshaped(emitter.part(rows, 0, i, 1), (m, k))
        w = emitter.slice_at(columns, j)
        products.append(emitter.reshaped(emitter.product(x, w), (1, m, n)))
    return emitter.reshaped(emitter.joined(products, 0), (*batch, m, n))


def _elementwise_product(emitter: Emitter, a: Value, b: Value) -> Value:
    """
    Return the products of a large batch of small matrices: all pairs of elements are multiplied,
    then summed.
    """
    (*first, m, k), (*second, _, n) = shape_of_value(a), shape_of_value(b)
    rows = emitter.reshaped(a, (*first, m, 1, k))
    last = len(second)
    turned = emitter.transposed(b, (*range(last), last + 1, last))
    columns = emitter.reshaped(turned, (*second, 1, n, k))
    products = emitter.mul(rows, columns)
    *kept, _ = shape = shape_of_value(products)
    return emitter.reshaped(emitter.reduce(Reduce.SUM, products, [len(shape) - 1]), kept)


@operator("Det")
def determinant(node: Node, emitter: Emitter) -> Value:
    """Import Det as a sum of products, for matrices of at most 3 rows."""
    *batch, n, columns = emitter.shape(0)
    if n != columns or n > MAX_DETERMINANT_ROWS:
        raise node.unsupported(
            f"of {n} by {columns}, expected square matrices of at most {MAX_DETERMINANT_ROWS} rows"
        )
    count = prod(batch)
    flat = emitter.reshaped(emitter.value(0), (count, n * n))
    entry = [[emitter.part(flat, 1, i * n + j, 1) for j in range(n)] for i in range(n)]

    def minor(rows: Sequence[int], kept: Sequence[int]) -> Value:
        if len(rows) == 1:
            return entry[rows[0]][kept[0]]
        terms = (
            emitter.mul(entry[rows[0]][c], minor(rows[1:], [k for k in kept if k != c]))
            for c in kept
        )
        total = next(terms)
        for k, term in enumerate(terms):
            total = emitter.add(total, term) if k % 2 else emitter.sub(total, term)
        return total

    return emitter.reshaped(minor(range(n), range(n)), batch)


MAX_DETERMINANT_ROWS = 3
"""Maximum number of rows. Terms of larger sums cancel."""


@operator("Gemm")
def gemm(node: Node, emitter: Emitter) -> Value:
    """
    Import Gemm: `alpha * A' * B' + beta * C`. The factors are multiplied into constants if
    possible.
    """
    node.ignore(*("broadcast",) * (node.opset < 7))
    a, b = emitter.value(0), emitter.value(1)
    batch = shape_of_value(a)[:-2]
    if prod(batch) == 1 == prod(shape_of_value(b)[:-2]):
        # Deeploy writes a batch of one matrix.
        a, b = (emitter.reshaped(v, shape_of_value(v)[-2:]) for v in (a, b))
    for value in (a, b):
        if len(shape_of_value(value)) != 2:
            raise node.wrong(f"matrix expected, got shape {list(shape_of_value(value))}")
    result = _product_of_matrices(node, emitter, a, b)
    return emitter.reshaped(result, (*batch, *shape_of_value(result)))


def _product_of_matrices(node: Node, emitter: Emitter, a: Value, b: Value) -> Value:
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
    if prod(shape[:-2]) == 1:
        c, shape = emitter.reshaped(c, shape[-2:]), shape[-2:]
    if len(shape) > 2 or any(e not in (1, f) for e, f in zip(shape[::-1], (n, m), strict=False)):
        raise node.wrong(f"C of shape {list(shape)} does not broadcast to [{m}, {n}]")
    if shape[-1:] == (n,) and prod(shape[:-1]) == 1:
        return emitter.product(a, weights, emitter.reshaped(c, (n,)))
    if isinstance(c, Constant) and prod(shape) == 1:
        # A scalar is a bias of equal entries.
        entries = np.broadcast_to(c.load().reshape(()), (n,))
        return emitter.product(a, weights, Constant.of(c.name, entries))
    return emitter.binary(Binary.ADD, emitter.product(a, weights), c)


def scaled(emitter: Emitter, value: Value, factor: float, suffix: str) -> Value:
    """
    Return `factor * value`. A constant is multiplied at import, and gets the name NODE/`suffix`.
    """
    if factor == 1.0:
        return value
    if isinstance(value, QuantizedConstant) and 0.0 < factor < inf:
        return value.scaled(factor)
    scale = np.float32(factor)
    if isinstance(value, Constant) and value.dtype == np.float32:
        return emitter.constant(value.load().astype(np.float32, copy=False) * scale, suffix)
    return emitter.binary(Binary.MUL, value, emitter.constant(np.array(scale), "factor"))


DOTS = "..."
"""The batch dimensions of an operand, which have no label."""


@dataclass(frozen=True)
class EinsumTerm:
    """An operand of an Einstein sum: a value with a label (such as `i`) for each dimension."""

    value: Value
    labels: Sequence[str]

    def ordered(self, emitter: Emitter, wanted: Sequence[str]) -> Value:
        return emitter.transposed(self.value, [self.labels.index(label) for label in wanted])

    def without(self, emitter: Emitter, lost: Collection[str]) -> "EinsumTerm":
        """Return the term without the dimensions with labels in `lost`, which have extent 1."""
        pairs = zip(self.labels, shape_of_value(self.value), strict=True)
        kept = {label: n for label, n in pairs if label not in lost}
        return EinsumTerm(emitter.reshaped(self.value, list(kept.values())), list(kept))


def _labels(node: Node) -> tuple[list[str], str]:
    equation = node.string("equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    operands = left.split(",")
    if not arrow:
        every = left.replace(DOTS, "").replace(",", "")
        unique = sorted(label for label in set(every) if every.count(label) == 1)
        result = "".join([DOTS if DOTS in left else "", *unique])
    return operands, result


@rule("Einsum")
def plain_equation(node: Node) -> str | None:
    """labels must be letters or dots for the rest, each once in an operand"""
    operands, result = _labels(node)
    for labels in (*operands, result):
        if not all(label.isalpha() for label in labels.replace(DOTS, "", 1)):
            return f"got '{labels}'; name each dimension by a letter"
        if len(set(labels) - {"."}) < len(labels.replace(DOTS, "", 1)):
            return f"got '{labels}'; extract the diagonal with Gather"
    return None


@operator("Einsum")
def einsum(node: Node, emitter: Emitter) -> Value:
    """Import Einsum as matrix products for each index of the common dimensions."""
    operands, result = _labels(node)
    if len(node.inputs) != len(operands):
        raise node.wrong(f"{len(node.inputs)} operands, expected {len(operands)}")
    ranks = [len(emitter.shape(i)) for i in range(len(operands))]
    *lists, wanted = _with_batch_labels(node, [*operands, result], ranks)
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
        _summed(emitter, EinsumTerm(emitter.value(i), labels), needed_labels, extents)
        for i, labels in enumerate(lists)
        for needed_labels in [{*wanted, *chain.from_iterable(lists[:i] + lists[i + 1 :])}]
    ]
    total, *rest = terms
    for i, term in enumerate(rest):
        kept = {*wanted, *chain.from_iterable(t.labels for t in rest[i + 1 :])}
        total = _product_of_terms(emitter, total, term, kept, extents)
    return total.ordered(emitter, wanted)


def _with_batch_labels(
    node: Node, texts: Sequence[str], ranks: Sequence[int]
) -> Iterator[Sequence[str]]:
    """
    Yield the labels of each operand and of the result of an Einsum. `texts` are their labels in the
    equation; dots are replaced by a generated label for each dimension that they represent, with
    equal labels for the last dimensions of all operands. `ranks` are the ranks of the operands.
    """
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
        before, dots, after = text.partition(DOTS)
        count = next(left, len(batch)) if dots else 0
        yield [*before, *batch[len(batch) - count :], *after]


def _summed(
    emitter: Emitter, term: EinsumTerm, needed_labels: Collection[str], extents: Mapping[str, int]
) -> EinsumTerm:
    """
    Return `term` without dimensions that are not needed: dimensions with a label that is not in
    `needed_labels` are summed, and broadcast dimensions of extent 1 are removed.
    """
    shape = dict(zip(term.labels, shape_of_value(term.value), strict=True))
    lost = [i for i, label in enumerate(term.labels) if label not in needed_labels]
    repeated = {k for k, n in shape.items() if n < extents[k] and k in needed_labels}
    value = emitter.reduce(Reduce.SUM, term.value, lost) if lost else term.value
    removed = {*repeated, *(term.labels[i] for i in lost)}
    return EinsumTerm(value, term.labels).without(emitter, removed)


def _product_of_terms(
    emitter: Emitter,
    a: EinsumTerm,
    b: EinsumTerm,
    kept: Collection[str],
    extents: Mapping[str, int],
) -> EinsumTerm:
    """
    Multiply two terms of an Einstein sum, and sum over the labels that both have and that are not
    in `kept`. `extents` has the extent of each label.
    """
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
        product = emitter.mul(emitter.reshaped(left, ones), emitter.reshaped(right, wide))
        return EinsumTerm(product, labels)
    sizes = [prod(extents[k] for k in part) for part in (batch, rows, inner, columns)]
    product = batched_product(
        emitter, emitter.reshaped(left, sizes[:3]), emitter.reshaped(right, (sizes[0], *sizes[2:]))
    )
    return EinsumTerm(emitter.reshaped(product, [extents[k] for k in labels]), labels)
