"""
Import the attention operators that the tools of ONNX Runtime for transformers and decoders write.

Queries, keys and values are [batch, heads, steps, size]. Past keys and values originate from
earlier calls. Queries and keys can be rotated by the angles of their positions (rotary embedding).
If several heads of queries share a head of keys, the queries are rows of a single product.
"""

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Compare, Function, SoftmaxOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, UNFUSED_MODEL, operator, rule
from ceras_ir.frontends.onnx.emission.values import (
    MAX_FLOAT32,
    Constant,
    Value,
    dtype_of_value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.indexing import placed, taken_along
from ceras_ir.frontends.onnx.operators.matrix import matrix_product, scaled

ROTATED = f"{MICROSOFT}RotaryEmbedding"
GROUPED = f"{MICROSOFT}GroupQueryAttention"
HEADS = f"{MICROSOFT}MultiHeadAttention"
JOINT_ATTENTION = f"{MICROSOFT}Attention"

HIDDEN_SCORE = -MAX_FLOAT32
"""The score of a masked key."""


@rule(GROUPED)
def plain_softmax(node: Node) -> str | None:
    """softmax must not have sinks, and keys and values must not be quantized"""
    if node.integer("smooth_softmax", 0) > 0 or node.has_input(11):
        return f"sinks are given; {UNFUSED_MODEL}"
    if node.has_output(3) or any(map(node.has_input, (12, 13))):
        return f"quantized keys or the scores as an output; {UNFUSED_MODEL}"
    return None


@rule(HEADS, JOINT_ATTENTION)
def whole_past(node: Node) -> str | None:
    """past keys and values must have their exact length, and no shared buffer"""
    last = 6 if node.operator == JOINT_ATTENTION else 8
    if any(map(node.has_input, range(last, last + 3))) or node.flag("past_present_share_buffer"):
        return f"a length of the past is given; {UNFUSED_MODEL}"
    return None


@operator(ROTATED)
def rotary_embedding(node: Node, emitter: Emitter) -> Value:
    """Import RotaryEmbedding: rotate pairs of elements by the angle of each position."""
    node.ignore("scale", "is_packed_batching", "rotary_embedding_dim")
    x, shape = emitter.value(0), emitter.shape(0)
    if len(shape) == 3:
        count = node.integer("num_heads", 0)
        if not count:
            width = node.integer("rotary_embedding_dim", 0) or 2 * emitter.shape(2)[-1]
            count = shape[-1] // width
        x = _heads(emitter, x, count)
    batch, _, steps, _ = shape_of_value(x)
    positions = emitter.value(1)
    if shape_of_value(positions) != (batch, steps):
        positions = _counted(emitter, emitter.reshaped(positions, (1,)), steps)
    rows = [_rows(emitter, emitter.value(i), positions) for i in (2, 3)]
    turned = _rotated(emitter, x, rows[0], rows[1], node.flag("interleaved"))
    return _rows_of_heads(emitter, turned) if len(shape) == 3 else turned


@operator(GROUPED)
def group_query_attention(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import GroupQueryAttention, in which several heads of queries share a head of keys and values.
    `seqlens_k` determines the position of the new keys. A query sees the keys up to the position of
    the query.
    """
    node.ignore("rotary_embedding_dim", "no_rope", "kv_cache_bit_width")
    node.ignore("k_quant_type", "v_quant_type", "qk_output", "smooth_softmax")
    count, shared = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    if count < 1 or shared < 1 or count % shared:
        raise node.wrong(f"{count} heads of queries and {shared} of keys")
    if node.has_input(1):
        counts = enumerate((count, shared, shared))
        query, key, value = (_heads(emitter, emitter.value(i), n) for i, n in counts)
    else:
        packed = _heads(emitter, emitter.value(0), count + 2 * shared)
        query, key, value = emitter.split(packed, 1, (count, shared, shared))
    batch, _, steps, size = shape_of_value(query)
    past = emitter.shape(3)[2] if node.has_input(3) else 0
    begin = _begin(emitter, batch, steps, past)
    if node.flag("do_rotary"):
        positions = emitter.value(9) if node.has_input(9) else _counted(emitter, begin, steps)
        cosines, sines = (_rows(emitter, emitter.value(i), positions) for i in (7, 8))
        interleaved = node.flag("rotary_interleaved")
        query, key = (_rotated(emitter, x, cosines, sines, interleaved) for x in (query, key))
    if past:
        total = emitter.value(6)
        length = int(total.load().reshape(-1)[0]) if isinstance(total, Constant) else past + steps
        length = min(max(length, past), past + steps)
        key, value = (
            _with_past(emitter, emitter.value(i), new, begin, length)
            for i, new in ((3, key), (4, value))
        )
    length = shape_of_value(key)[2]
    visible = _visible(emitter, begin, steps, length, node.integer("local_window_size", -1))
    scores = scaled_scores(emitter, query, key, node.number("scale", 0.0) or 1 / sqrt(size))
    if cap := node.number("softcap", 0.0):
        scores = emitter.unary(Function.TANH, scaled(emitter, scores, 1 / cap, "cap"))
        scores = scaled(emitter, scores, cap, "cap")
    if node.has_input(10):
        scores = emitter.add(scores, emitter.value(10))
    if visible is not None:
        scores = emitter.select(visible, scores, emitter.number(HIDDEN_SCORE))
    return _weighted(emitter, scores, value), key, value


@operator(HEADS)
def multi_head_attention(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import MultiHeadAttention: products of heads of queries, keys and values, with an optional bias.
    """
    node.ignore("mask_filter_value")
    count = node.integer("num_heads", 0)
    if not all(map(node.has_input, range(3))) or any(len(emitter.shape(i)) > 4 for i in range(3)):
        raise node.unsupported(f"packed queries, keys and values; {UNFUSED_MODEL}")
    given = map(emitter.value, range(3))
    parts = [x if len(shape_of_value(x)) == 4 else _heads(emitter, x, count) for x in given]
    if node.has_input(3):
        bias, start = emitter.value(3), 0
        for i, x in enumerate(parts):
            _, n, _, size = shape_of_value(x)
            each = emitter.part(bias, 0, start, n * size)
            # Keys and values of an encoder include the bias.
            if len(emitter.shape(i)) == 3:
                parts[i] = emitter.add(x, emitter.reshaped(each, (n, 1, size)))
            start += n * size
    query, key, value = parts
    if node.has_input(6):
        key, value = (emitter.joined([emitter.value(i), x], 2) for i, x in ((6, key), (7, value)))
    return _attended(node, emitter, query, key, value, mask=4, bias=5), key, value


@operator(JOINT_ATTENTION)
def attention(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import Attention of ONNX Runtime: a single product computes queries, keys and values, followed
    by products of heads.
    """
    node.ignore("mask_filter_value", "rotary_embedding_dim")
    if node.flag("do_rotary"):
        raise node.unsupported(f"rotated positions; {UNFUSED_MODEL}")
    count = node.integer("num_heads", 0)
    batch, steps, width = emitter.shape(0)
    rows = emitter.reshaped(emitter.value(0), (batch * steps, width))
    weights = emitter.transposed(emitter.value(1), (1, 0))
    added = emitter.value(2) if node.has_input(2) else None
    every = emitter.product(rows, weights, added)
    widths = node.integers("qkv_hidden_sizes") or [shape_of_value(weights)[0] // 3] * 3
    parts: list[Value] = []
    for i in range(3):
        each = emitter.part(every, 1, sum(widths[:i]), widths[i])
        parts.append(_heads(emitter, emitter.reshaped(each, (batch, steps, widths[i])), count))
    query, key, value = parts
    if node.has_input(4):
        past = emitter.value(4)
        packed = shape_of_value(past)[1:]
        key, value = (
            emitter.joined([emitter.reshaped(emitter.part(past, 0, i, 1), packed), x], 2)
            for i, x in enumerate((key, value))
        )
    result = _attended(node, emitter, query, key, value, mask=3, bias=5)
    if not node.has_output(1):
        return [result]
    present = [emitter.reshaped(x, (1, *shape_of_value(x))) for x in (key, value)]
    return result, emitter.joined(present, 0)


def _attended(
    node: Node, emitter: Emitter, query: Value, key: Value, value: Value, *, mask: int, bias: int
) -> Value:
    batch, _, steps, size = shape_of_value(query)
    length = shape_of_value(key)[2]
    scores = scaled_scores(emitter, query, key, node.number("scale", 0.0) or 1 / sqrt(size))
    if node.has_input(bias):
        scores = emitter.add(scores, emitter.value(bias))
    if node.has_input(mask):
        given = emitter.value(mask)
        shape = shape_of_value(given)
        if shape == (batch,):
            key_counts = emitter.reshaped(emitter.cast(given, i64), (batch, 1, 1, 1))
            numbers = emitter.constant(np.arange(length), "keys")
            kept: Value = emitter.compare(Compare.LESS, numbers, key_counts)
        elif shape[:1] == (batch,) and shape[-1] == length and len(shape) in (2, 3):
            rows = emitter.reshaped(given, (batch, 1, (1, *shape)[-2] if shape[2:] else 1, length))
            kept = emitter.compare(Compare.LESS, emitter.number(0, rows), rows)
        else:
            raise node.unsupported(f"a mask of shape {list(shape)}; {UNFUSED_MODEL}")
        # The mask value is added, so a query without keys sees all of them.
        scores = emitter.select(
            kept,
            scores,
            emitter.add(scores, emitter.number(node.number("mask_filter_value", -1e4))),
        )
    if node.flag("unidirectional"):
        begin = emitter.constant(np.array([length - steps]), "begin")
        visible = _visible(emitter, begin, steps, length, -1)
        if visible is not None:
            scores = emitter.select(visible, scores, emitter.number(HIDDEN_SCORE))
    return _weighted(emitter, scores, value)


def scaled_scores(emitter: Emitter, query: Value, key: Value, scale: float) -> Value:
    """
    Return the scores [batch, heads, queries, keys]: products of queries and keys, times `scale`.
    Several heads of queries may share a head of keys.
    """
    (batch, count, steps, size), shared = shape_of_value(query), shape_of_value(key)[1]
    query = scaled(emitter, query, scale, "scale")
    rows = emitter.reshaped(query, (batch, shared, count // shared * steps, size))
    product = matrix_product(emitter, rows, emitter.transposed(key, (0, 1, 3, 2)))
    return emitter.reshaped(product, (batch, count, steps, shape_of_value(key)[2]))


def _weighted(emitter: Emitter, scores: Value, value: Value) -> Value:
    """Return the values, weighted by the softmax of `scores`, with concatenated heads."""
    (batch, count, steps, length), shape = shape_of_value(scores), shape_of_value(value)
    weights: Value = emitter.emit(SoftmaxOp(emitter.materialize(scores), 3))
    rows = emitter.reshaped(weights, (batch, shape[1], count // shape[1] * steps, length))
    product = matrix_product(emitter, rows, value)
    return _rows_of_heads(emitter, emitter.reshaped(product, (batch, count, steps, shape[3])))


def _heads(emitter: Emitter, x: Value, count: int) -> Value:
    shape = shape_of_value(x)
    if len(shape) != 3 or count < 1 or shape[2] % count:
        raise emitter.node.wrong(f"{count} heads of an operand of shape {list(shape)}")
    batch, steps, width = shape
    distance = emitter.reshaped(x, (batch, steps, count, width // count))
    return emitter.transposed(distance, (0, 2, 1, 3))


def _rows_of_heads(emitter: Emitter, x: Value) -> Value:
    batch, count, steps, size = shape_of_value(x)
    return emitter.reshaped(emitter.transposed(x, (0, 2, 1, 3)), (batch, steps, count * size))


def _begin(emitter: Emitter, batch: int, steps: int, past: int) -> Value:
    """
    Return the position of the first query of `steps` queries, [1], which is the number of earlier
    keys. `past` is the number of past keys that the node has.
    """
    given = emitter.value(5)
    if isinstance(given, Constant):
        last_keys = np.unique(given.load())
        if last_keys.size == 1 or not past:
            return emitter.constant(
                np.array([int(last_keys[0]) + 1 - steps if past else 0]), "begin"
            )
    elif not past:
        return emitter.constant(np.array([0]), "begin")
    if batch != 1:
        raise emitter.node.unsupported(
            f"{batch} sequences of different lengths; export the model with a batch of 1, or "
            "with a symbolic batch and without --batch"
        )
    end = emitter.cast(emitter.reshaped(given, (1,)), i64)
    return emitter.add(end, emitter.constant(np.array([1 - steps]), "steps"))


def _counted(emitter: Emitter, begin: Value, steps: int) -> Value:
    numbers = np.arange(steps)
    if isinstance(begin, Constant):
        return emitter.constant(begin.load().astype(np.int64) + numbers, "positions")
    counted = emitter.constant(numbers.astype(dtype_of_value(begin)), "steps")
    return emitter.add(begin, counted)


def _rows(emitter: Emitter, table: Value, positions: Value) -> Value:
    """
    Return the rows of `table`, which has sines or cosines, at `positions`:
    [batch or 1, 1, steps, width].
    """
    shape = shape_of_value(positions)
    if isinstance(positions, Constant):
        numbers = [int(i) for i in positions.load().reshape(-1)]
        gathered = emitter.gathered(table, 0, numbers)
    else:
        gathered = taken_along(emitter, table, 0, positions)
    batch = shape[0] if len(shape) > 1 else 1
    return emitter.reshaped(gathered, (batch, 1, prod(shape) // batch, shape_of_value(table)[1]))


def _rotated(emitter: Emitter, x: Value, cosines: Value, sines: Value, interleaved: bool) -> Value:
    """
    Rotate the first elements of each head in pairs. A pair consists of neighbors if `interleaved`,
    else of elements at the same place in both halves.
    """
    batch, count, steps, size = shape_of_value(x)
    half = shape_of_value(cosines)[-1]
    if not 0 < 2 * half <= size:
        raise emitter.node.wrong(f"{half} cosines for heads of {size}")
    first = emitter.part(x, 3, 0, 2 * half)
    rest = emitter.part(x, 3, 2 * half, size - 2 * half) if size > 2 * half else None
    if interleaved:
        pairs = emitter.reshaped(first, (batch, count, steps, half, 2))
        packed = (batch, count, steps, half)
        a, b = (emitter.reshaped(emitter.part(pairs, 4, i, 1), packed) for i in (0, 1))
    else:
        a, b = (emitter.part(first, 3, start, half) for start in (0, half))
    turned = [
        emitter.sub(emitter.mul(a, cosines), emitter.mul(b, sines)),
        emitter.add(emitter.mul(a, sines), emitter.mul(b, cosines)),
    ]
    if interleaved:
        columns = [emitter.reshaped(each, (batch, count, steps, half, 1)) for each in turned]
        joined = emitter.reshaped(emitter.joined(columns, 4), (batch, count, steps, 2 * half))
    else:
        joined = emitter.joined(turned, 3)
    return joined if rest is None else emitter.joined([joined, rest], 3)


def _with_past(emitter: Emitter, past: Value, new: Value, begin: Value, length: int) -> Value:
    """Return `length` keys (or values): `past` before position `begin`, and `new` from there on."""
    steps = shape_of_value(new)[2]
    kept = shape_of_value(past)[2]
    both = emitter.joined([past, new], 2)
    numbers = np.arange(length)
    if isinstance(begin, Constant):
        start = int(begin.load()[0])
        is_new = (numbers >= start) & (numbers < start + steps)
        return emitter.gathered(both, 2, (numbers + is_new * (kept - start)).tolist())
    batch, count, _, size = shape_of_value(new)
    if (batch, steps, length) == (1, 1, kept):
        # A buffer of a fixed size receives a row, so that it can be a state.
        table, row = (
            emitter.reshaped(emitter.transposed(x, (2, 0, 1, 3)), (extent, count * size))
            for x, extent in ((past, kept), (new, 1))
        )
        written = emitter.reshaped(placed(emitter, table, begin, row), (kept, 1, count, size))
        return emitter.transposed(written, (1, 2, 0, 3))
    # A key from `begin` on is new, unless it is after the new keys.
    every = emitter.constant(numbers, "keys")
    offset = emitter.sub(every, begin)
    is_later = emitter.compare(Compare.LESS, emitter.constant(np.array([-1]), "before"), offset)
    is_old = emitter.compare(Compare.LESS, emitter.constant(np.array([steps - 1]), "last"), offset)
    moved = emitter.add(offset, emitter.constant(np.array([kept]), "kept"))
    places = emitter.select(is_old, every, emitter.select(is_later, moved, every))
    return taken_along(emitter, both, 2, places)


def _visible(emitter: Emitter, begin: Value, steps: int, length: int, window: int) -> Value | None:
    """
    Return a mask [steps, length]: whether a query sees a key, at the position of the query or
    before; with `window` > 0 only the last `window` keys. `begin` is the position of the first
    query. Return `None` if all queries see all keys.
    """
    queries, keys = np.arange(steps)[:, None], np.arange(length)
    if isinstance(begin, Constant):
        distance = keys - (queries + int(begin.load()[0]))
        visible = (distance <= 0) & ((distance > -window) if window > 0 else True)
        return None if visible.all() else emitter.constant(visible, "seen")
    distance = emitter.sub(emitter.constant(keys - queries, "apart"), begin)
    visible = emitter.compare(Compare.LESS, distance, emitter.constant(np.array([1]), "next"))
    if window <= 0:
        return visible
    near = emitter.compare(Compare.LESS, emitter.constant(np.array([-window]), "window"), distance)
    return emitter.select(near, visible, near)
