"""Build transformer blocks as the exporters of torch, tf2onnx and Keras write them."""

from __future__ import annotations

import numpy as np
from generated import spelling as s
from generated.builder import (
    BOOL,
    INT64,
    Attributes,
    Builder,
    Case,
    Value,
    below,
    bits,
    normal,
)

EPSILONS = (1e-5, 1e-6, 1e-12, 1e-3, 1e-8)


def transformer(b: Builder) -> Case:
    """Build one to three blocks over a few tokens, perhaps with an embedding and a head."""
    tokens, heads = b.size(2, 6), b.pick(1, 2, 2, 4)
    width = heads * b.pick(2, 4, 8)
    batch = b.pick(1, 1, 2)
    if b.chance(0.35):
        ids = b.input((batch, tokens), below(11), INT64)
        table = b.weights(11, width, gain=3.0)
        x = b.emit("Gather", table, ids, shape=(batch, tokens, width), axis=0)
    else:
        x = b.input((batch, tokens, width), normal)
    if b.chance(0.5):
        x = b.emit("Add", x, b.weights(1, tokens, width, gain=1.0))
    mask = attention_mask(b, batch, tokens) if b.chance(0.5) else None
    for _ in range(b.size(1, 2)):
        x = block(b, x, heads, mask)
    if b.chance(0.4):
        x = pooled(b, x)
    if b.chance(0.3):
        x = s.softmax(b, x) if b.chance(0.7) else s.softmax(b, x, op="LogSoftmax")
    b.output(x)
    if b.chance(0.2):
        b.output(s.arg(b, "ArgMax", x, -1, keep=b.chance(0.5)))
    return b.case()


def cached_decoder(b: Builder) -> Case:
    """Build a decoder of one token per call, with a cache as state or as input and output."""
    heads, width = b.pick(1, 2), b.pick(2, 4)
    past, model = b.size(2, 5), heads * width
    x = b.input((1, 1, model), normal)
    streaming = b.chance(0.6)
    caches: list[Value] = []
    for _ in range(2):
        caches.append(b.input((1, heads, past, width), normal))
    normed = normalized(b, x)
    q, k, v = (split_heads(b, s.linear(b, normed, model), heads) for _ in range(3))
    if b.chance(0.5):
        q, k = rotated(b, q), rotated(b, k)
    joined = [
        b.emit("Concat", c, n, axis=2, shape=(1, heads, past + 1, width))
        for c, n in zip(caches, (k, v), strict=True)
    ]
    if b.chance(0.5):
        # The window slides: the oldest entry is dropped before attention.
        joined = [s.slices(b, j, 2, 1) for j in joined]
        kept = joined
    else:
        kept = [s.slices(b, j, 2, 1) for j in joined]
    mixed = attention(b, q, joined[0], joined[1], None)
    result = b.emit("Add", x, s.linear(b, merge_heads(b, mixed), model))
    b.output(feed_forward(b, result))
    for cache, value in zip(caches, kept, strict=True):
        stored = b.output(value)
        if streaming:
            b.states[cache.name] = stored.name
    return b.case(samples=6 if streaming else 3)


def block(b: Builder, x: Value, heads: int, mask: Value | None) -> Value:
    """Append attention and a feed-forward network, each with a residual and a norm."""
    width, is_pre = x.shape[-1], b.chance(0.5)
    inner = normalized(b, x) if is_pre else x
    if b.chance(0.4):
        parts = s.split(b, s.linear(b, inner, 3 * width), -1, width, width, width)
    else:
        parts = [s.linear(b, inner, width) for _ in range(3)]
    q, k, v = (split_heads(b, part, heads) for part in parts)
    if b.chance(0.35) and q.shape[-1] % 2 == 0:
        q, k = rotated(b, q), rotated(b, k)
    if b.chance(0.15):
        q, k = l2_normalized(b, q), l2_normalized(b, k)
    mixed = merge_heads(b, attention(b, q, k, v, mask))
    x = b.emit("Add", x, s.linear(b, mixed, width))
    x = x if is_pre else normalized(b, x)
    inner = normalized(b, x) if is_pre else x
    return b.emit("Add", feed_forward(b, inner), x)


def split_heads(b: Builder, x: Value, heads: int) -> Value:
    batch, tokens, width = x.shape
    x = s.reshape(b, x, batch, tokens, heads, width // heads)
    return s.transpose(b, x, 0, 2, 1, 3)


def merge_heads(b: Builder, x: Value) -> Value:
    x = s.transpose(b, x, 0, 2, 1, 3)
    return s.reshape(b, x, *x.shape[:2], x.shape[2] * x.shape[3])


def attention(b: Builder, q: Value, k: Value, v: Value, mask: Value | None) -> Value:
    """Compute softmax(q k' / sqrt(width) + mask) v, in one of several forms."""
    width = q.shape[-1]
    shape = (*q.shape[:-1], k.shape[2])
    if b.opset >= 23 and mask is None and b.chance(0.4):
        causal: Attributes = {"is_causal": 1} if q.shape[2] == k.shape[2] and b.chance(0.5) else {}
        return b.emit("Attention", q, k, v, shape=(*q.shape[:-1], v.shape[-1]), **causal)
    keys = s.transpose(b, k, 0, 1, 3, 2)
    root = b.constant(np.sqrt(width))
    match b.size(0, 3):
        case 0:
            scores = b.emit("Div", b.emit("MatMul", q, keys, shape=shape), root)
        case 1:
            scores = b.emit("MatMul", b.emit("Div", q, root), keys, shape=shape)
        case 2:
            # torch scales both factors by the fourth root.
            factor = b.constant(width**-0.25)
            factors = b.emit("Mul", q, factor), b.emit("Mul", keys, factor)
            scores = b.emit("MatMul", *factors, shape=shape)
        case _:
            scores = b.emit("MatMul", q, keys, shape=shape)
            scores = b.emit("Mul", scores, b.constant(width**-0.5))
    if mask is not None and mask.shape[-1] == shape[-1]:
        if mask.dtype == BOOL:
            scores = s.where(
                b, mask, scores, b.constant(b.pick(-1e9, -1e4, -3.4e38, -float("inf")))
            )
        else:
            scores = b.emit("Add", scores, mask)
    elif mask is None and q.shape[2] == k.shape[2] and b.chance(0.4):
        future = np.triu(np.full(shape[-2:], b.pick(-1e9, -1e4, -3.4028234663852886e38)), 1)
        scores = b.emit("Add", scores, b.constant(future))
    shares = soft_by_hand(b, scores) if b.chance(0.15) else s.softmax(b, scores)
    if b.opset >= 12 and b.chance(0.15):
        label = "bhqk,bhkd->bhqd"
        return b.emit("Einsum", shares, v, shape=(*q.shape[:-1], v.shape[-1]), equation=label)
    return b.emit("MatMul", shares, v, shape=(*q.shape[:-1], v.shape[-1]))


def soft_by_hand(b: Builder, scores: Value) -> Value:
    shifted = b.emit("Sub", scores, s.reduce(b, "ReduceMax", scores, -1 % scores.rank))
    powers = b.emit("Exp", shifted)
    total = s.reduce(b, "ReduceSum", powers, scores.rank - 1)
    if b.chance(0.5):
        total = b.emit("Add", total, b.constant(b.pick(1e-9, 1e-12, 1e-6)))
    return b.emit("Div", powers, total)


def attention_mask(b: Builder, batch: int, tokens: int) -> Value:
    """Build a padding mask, as booleans or as values that are 0 or very negative."""
    given = b.input((batch, tokens), bits, BOOL if b.chance(0.4) and b.opset >= 9 else INT64)
    rows = s.unsqueeze(b, given, 1, 2)
    if given.dtype == BOOL:
        return rows
    if b.chance(0.3) and b.opset >= 11:
        return s.compare(b, "Equal", rows, b.integers(1))
    kept = b.emit("Sub", b.constant(1.0), s.cast(b, rows, np.float32))
    return b.emit("Mul", kept, b.constant(b.pick(-1e4, -1e9, -3.4028234663852886e38)))


def normalized(b: Builder, x: Value) -> Value:
    """Normalize the last dimension, with the operator or written out."""
    width, epsilon = x.shape[-1], b.pick(*EPSILONS)
    last, scale = x.rank - 1, b.constant(b.random.uniform(0.5, 1.5, width))
    bias = b.constant(b.random.normal(0, 0.2, width))
    kind = b.size(0, 4)
    if kind == 0 and b.opset >= 17:
        return b.emit("LayerNormalization", x, scale, bias, shape=x.shape, axis=-1, epsilon=epsilon)
    if kind == 1 and b.opset >= 23:
        return b.emit("RMSNormalization", x, scale, shape=x.shape, axis=-1, epsilon=epsilon)
    if kind <= 1:
        # Llama has this RMSNorm.
        square = b.emit("Pow", x, b.constant(2.0)) if b.chance(0.5) else b.emit("Mul", x, x)
        mean = s.reduce(b, "ReduceMean", square, last)
        root = b.emit("Sqrt", b.emit("Add", mean, b.constant(epsilon)))
        if b.chance(0.5):
            return b.emit("Mul", scale, b.emit("Mul", x, b.emit("Reciprocal", root)))
        return b.emit("Mul", b.emit("Div", x, root), scale)
    mean = s.reduce(b, "ReduceMean", x, last)
    centred = b.emit("Sub", x, mean)
    if kind == 2:
        # torch writes nn.LayerNorm in this form.
        square = b.emit("Pow", centred, b.constant(2.0))
        root = b.emit(
            "Sqrt", b.emit("Add", s.reduce(b, "ReduceMean", square, last), b.constant(epsilon))
        )
        return b.emit("Add", b.emit("Mul", b.emit("Div", centred, root), scale), bias)
    # Keras writes this form: scale / sqrt(variance + epsilon), and a bias from the mean.
    difference = b.emit("Sub", x, mean) if b.chance(0.5) else centred
    variance = s.reduce(b, "ReduceMean", b.emit("Mul", difference, difference), last)
    root = b.emit("Sqrt", b.emit("Add", variance, b.constant(epsilon)))
    factor = b.emit("Mul", b.emit("Reciprocal", root), scale)
    if kind == 3:
        return b.emit("Add", b.emit("Mul", centred, factor), bias)
    shift = b.emit("Sub", bias, b.emit("Mul", mean, factor))
    return b.emit("Add", b.emit("Mul", x, factor), shift)


def l2_normalized(b: Builder, x: Value) -> Value:
    """Append torch's functional.normalize or tf.math.l2_normalize: the norm is guarded."""
    last, least = x.rank - 1, b.pick(1e-12, 1e-6, 1e-8)
    if b.chance(0.5):
        norm = s.reduce(b, "ReduceL2", x, last)
        guarded = s.clip(b, norm, least)
        return b.emit(
            "Div",
            x,
            b.emit("Expand", guarded, b.integers(*x.shape), shape=x.shape)
            if b.opset >= 8 and b.chance(0.5)
            else guarded,
        )
    square = s.reduce(b, "ReduceSum", b.emit("Mul", x, x), last)
    guarded = s.clip(b, square, least)
    return b.emit("Mul", x, b.emit("Reciprocal", b.emit("Sqrt", guarded)))


def rotated(b: Builder, x: Value) -> Value:
    """Append rotary position embeddings, by halves or by pairs."""
    batch, heads, tokens, width = x.shape
    if width % 2:
        return x
    half = width // 2
    angles = np.outer(np.arange(tokens), 100.0 ** (-np.arange(half) / half))
    if b.opset >= 23 and b.chance(0.4):
        caches = [b.constant(f(angles)) for f in (np.cos, np.sin)]
        places = b.constant(np.tile(np.arange(tokens), (batch, 1)), np.int64)
        return b.emit(
            "RotaryEmbedding", x, *caches, places, shape=x.shape, interleaved=b.pick(0, 1)
        )
    doubled = np.concatenate([angles, angles], 1)
    cosines, sines = (b.constant(f(doubled)) for f in (np.cos, np.sin))
    first, second = s.slices(b, x, 3, 0, half), s.slices(b, x, 3, half)
    turned = b.emit(
        "Concat", b.emit("Neg", second), first, axis=-1 if b.opset >= 11 else 3, shape=x.shape
    )
    del heads
    return b.emit("Add", b.emit("Mul", x, cosines), b.emit("Mul", turned, sines))


def feed_forward(b: Builder, x: Value) -> Value:
    """Append two products with an activation between, perhaps gated."""
    width = x.shape[-1]
    inner = s.linear(b, x, 2 * width)
    if b.chance(0.3):
        gate = activation(b, s.linear(b, x, 2 * width, bias=False))
        return s.linear(b, b.emit("Mul", gate, inner), width, bias=False)
    return s.linear(b, activation(b, inner), width)


def activation(b: Builder, x: Value) -> Value:
    """Append GELU in one of several forms, SiLU, or squared ReLU."""
    kind = b.size(0, 6)
    half, one = b.constant(0.5), b.constant(1.0)
    if kind == 0 and b.opset >= 20:
        return b.emit("Gelu", x, approximate=b.pick("none", "tanh"))
    if kind <= 2 and b.opset >= 9:
        divided = b.emit("Div", x, b.constant(np.sqrt(2)))
        if kind == 1:
            divided = b.emit("Mul", x, b.constant(np.sqrt(0.5)))
        erf = b.emit("Add", b.emit("Erf", divided), one)
        if b.chance(0.5):
            return b.emit("Mul", b.emit("Mul", x, erf), half)
        return b.emit("Mul", b.emit("Mul", x, half), erf)
    if kind == 3:
        cube = b.emit("Pow", x, b.constant(3.0))
        if b.chance(0.5):
            cube = b.emit("Mul", b.emit("Mul", x, x), x)
        inner = b.emit("Add", x, b.emit("Mul", cube, b.constant(0.044715)))
        tanh = b.emit("Tanh", b.emit("Mul", inner, b.constant(np.sqrt(2 / np.pi))))
        return b.emit("Mul", b.emit("Mul", half, x), b.emit("Add", tanh, one))
    if kind == 4:
        return b.emit("Mul", x, b.emit("Sigmoid", b.emit("Mul", x, b.constant(1.702))))
    if kind == 5:
        positive = b.emit("Relu", x)
        return b.emit("Mul", positive, positive)
    return b.emit("Mul", x, b.emit("Sigmoid", x))


def pooled(b: Builder, x: Value) -> Value:
    """Pool by the first token, the mean, or a sentence embedding: a masked mean of length 1."""
    batch, tokens, width = x.shape
    match b.size(0, 2):
        case 0:
            return b.emit("Gather", x, b.constant(0, np.int64), shape=(batch, width), axis=1)
        case 1:
            return s.reduce(b, "ReduceMean", x, 1, keep=False)
        case _:
            mask = s.unsqueeze(b, b.input((batch, tokens), bits, np.float32), 2)
            total = s.reduce(b, "ReduceSum", b.emit("Mul", x, mask), 1, keep=False)
            count = s.clip(b, s.reduce(b, "ReduceSum", mask, 1, keep=False), 1e-9)
            return l2_normalized(b, b.emit("Div", total, count))
