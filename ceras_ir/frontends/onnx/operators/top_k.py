"""The greatest or least elements along an axis, by the rank of every element."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32

from ceras_ir.dialects.graph import ArgOp, Compare, Reduce, TakeOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import WHERE_COMPUTED, constant_operands, operator
from ceras_ir.frontends.onnx.values import Value

MAX_EXTENT = 1 << 10
"""Elements that are ranked: every one is compared with every other."""
MAX_COMPARISONS = 1 << 24
"""Comparisons at a time, each of which takes four bytes of memory."""
SMALLEST_PART = 64
"""Elements of a part, where all are not ranked at once."""

constant_operands({"TopK": [1]}, "k must be a constant", WHERE_COMPUTED)


@operator("TopK")
def top_k(node: Node, emitter: Emitter) -> list[Value]:
    """
    An element's rank is the number of those that come before it: greater ones, and equal ones of
    lower index. Output t is the element of rank t. More than 1024 elements are ranked in parts,
    and then the first ones of all parts. In a row with NaN results are unspecified.
    """
    node.ignore("sorted")
    shape = emitter.shape(0)
    axis = node.axis(node.integer("axis", -1), len(shape))
    given = emitter.integers(1) if node.opset >= 10 else (node.integer("k", 0),)
    k, n = (given or (0,))[0], shape[axis]
    if not 1 <= k <= n:
        raise node.wrong(f"k must be in [1, {n}], got {k}")
    count = int(np.prod(shape)) // n
    if _part(n, k) > MAX_EXTENT or count * _comparisons(n, k) > MAX_COMPARISONS:
        raise node.unsupported(
            f"{k} of {n} elements of {list(shape)}; at most {MAX_EXTENT} are ranked at a time, "
            "with 2^24 comparisons: end the model before it and do the rest in the application"
        )
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    rows = emitter.transposed(emitter.value(0), order)
    outer = shape_of_value(rows)[:-1]
    ranking = _Ranking(emitter, Composer(emitter), k, node.flag("largest", True))
    back = [order.index(i) for i in range(len(shape))]
    return [
        emitter.transposed(emitter.reshaped(part, (*outer, k)), back)
        for part in ranking.first(emitter.reshaped(rows, (count, n)))
    ]


def _part(n: int, k: int) -> int:
    """How many of `n` elements are ranked at a time; a part has `k` that go on, and twice that."""
    return n if n <= MAX_EXTENT else max(SMALLEST_PART, 1 << (2 * k - 1).bit_length())


def _comparisons(n: int, k: int) -> int:
    """How many there are in one row at a time, at most."""
    part = _part(n, k)
    if part >= n:
        return n * n
    left = n // part * k + min(n % part, k)
    return max(n * part, _comparisons(left, k))


@dataclass(frozen=True)
class _Ranking:
    """Finds the first `k` elements of rows, or all of a row that has fewer."""

    emitter: Emitter
    compose: Composer
    k: int
    largest: bool

    def first(self, rows: Value) -> tuple[Value, Value]:
        """The elements of lowest rank in rows [R, N], and their indices."""
        count, n = shape_of_value(rows)
        size = _part(n, self.k)
        if size >= n:
            return self._ranked(rows)
        parts = n // size
        whole = self.compose.part(rows, 1, 0, parts * size)
        found, index = self._ranked(self.emitter.reshaped(whole, (count * parts, size)))
        starts = np.tile(size * np.arange(parts, dtype=np.int64), count).reshape(-1, 1)
        index = self.compose.add(index, self.emitter.constant(starts, "starts"))
        found, index = (
            self.emitter.reshaped(value, (count, parts * self.k)) for value in (found, index)
        )
        if rest := n - parts * size:
            last, at = self._ranked(self.compose.part(rows, 1, parts * size, rest))
            start = self.emitter.constant(np.array(parts * size, np.int64), "start")
            found = self.compose.joined([found, last], 1)
            index = self.compose.joined([index, self.compose.add(at, start)], 1)
        # Parts are in the order of their indices, so that of equal elements the first still wins.
        found, at = self.first(found)
        return found, self._taken(index, at)

    def _ranked(self, rows: Value) -> tuple[Value, Value]:
        count, n = shape_of_value(rows)
        k = min(self.k, n)
        each = self.emitter.reshaped(rows, (count, n, 1))
        others = self.emitter.reshaped(rows, (count, 1, n))
        ends = (each, others) if self.largest else (others, each)
        before = self.compose.cast(self.compose.compare(Compare.LESS, *ends), i32)
        lower = self.emitter.constant(np.tril(np.ones((1, n, n), np.int32), -1), "lower")
        equal = self.compose.cast(self.compose.compare(Compare.EQUAL, each, others), i32)
        before = self.compose.add(before, self.compose.mul(equal, lower))
        rank = self.compose.reduce(Reduce.SUM, before, (2,))
        wanted = self.emitter.constant(np.arange(k, dtype=np.int32).reshape(1, 1, k), "ranks")
        chosen = self.compose.compare(Compare.EQUAL, rank, wanted)
        bytes_of = self.emitter.materialize(self.compose.cast(chosen, IntegerType(8)))
        index = self.emitter.emit(ArgOp(Reduce.MAX, bytes_of, 1))
        index = self.emitter.reshaped(index, (count, k))
        return self._taken(rows, index), index

    def _taken(self, rows: Value, index: Value) -> Value:
        """The elements of rows [R, N] at indices [R, K]."""
        (count, n), (_, k) = shape_of_value(rows), shape_of_value(index)
        starts = n * np.arange(count, dtype=np.int64).reshape(count, 1)
        at = self.compose.add(index, self.emitter.constant(starts, "starts"))
        at = self.emitter.materialize(self.emitter.reshaped(at, (count * k,)))
        column = self.emitter.materialize(self.emitter.reshaped(rows, (count * n, 1)))
        return self.emitter.reshaped(self.emitter.emit(TakeOp(column, at)), (count, k))
