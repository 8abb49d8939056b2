"""Build arithmetic on integers and booleans: indices, shapes, signs, overflow, shifts, ties."""

from __future__ import annotations

import numpy as np
from generated import spelling as s
from generated.builder import (
    BOOL,
    FLOAT,
    INT64,
    Attributes,
    Builder,
    Case,
    Value,
    below,
    bits,
    normal,
    whole_range,
)

TYPES = ("int64", "int64", "int32", "int32", "uint8", "int8", "int16", "uint16", "uint32", "uint64")


def integer_arithmetic(b: Builder) -> Case:
    """Build chains of arithmetic on one type, with conversions to other types."""
    dtype = np.dtype(b.pick(*TYPES))
    shape = (b.size(1, 3), b.size(2, 6))
    x, y = (b.input(shape, whole_range(dtype), dtype) for _ in range(2))
    values = [x, y]
    for _ in range(b.size(2, 6)):
        left = values[-1]
        same = [v for v in values if v.dtype == left.dtype and v.rank == 2]
        right = b.pick(*same) if b.chance(0.7) else number(b, left.dtype)
        values.append(
            b.pick(arithmetic, arithmetic, divided, bitwise, ordered, converted)(b, left, right)
        )
    b.output(values[-1])
    if b.chance(0.5) and values[-2].dtype.kind in "iub":
        b.output(values[-2])
    return b.case(samples=4)


def number(b: Builder, dtype: np.dtype) -> Value:  # type: ignore[type-arg]
    """Add a constant of a type, often an extreme or small."""
    limits = np.iinfo(dtype)
    return b.constant(b.pick(limits.max, limits.min, 1, 2, 3, 7, max(limits.min, -3), 0), dtype)


def narrow(b: Builder, x: Value) -> None:
    """Require operator set 14 for arithmetic on fewer than 32 bits."""
    if x.dtype.itemsize < 4:
        b.since(14)


def arithmetic(b: Builder, x: Value, y: Value) -> Value:
    narrow(b, x)
    op = b.pick("Add", "Sub", "Mul", "Add", "Mul", "Neg", "Abs", "Sign")
    if op in ("Add", "Sub", "Mul"):
        return b.emit(op, *((x, y) if b.chance(0.6) else (y, x)), shape=x.shape)
    if op == "Sign":
        b.since(9)
    return b.emit(op, x) if x.dtype.kind == "i" or op != "Neg" else x


def divided(b: Builder, x: Value, y: Value) -> Value:
    """Append division or remainder by nonzero integers of either sign."""
    narrow(b, x)
    if b.chance(0.5):
        low = 1 if x.dtype.kind == "u" or b.chance(0.3) else -7
        values = np.array([v for v in range(low, 9) if v])
        y = b.constant(b.random.choice(values, x.shape[-1:]), x.dtype)
    elif b.opset >= 12:
        # Derive a positive or negative divisor from the data; it is never 0.
        y = s.extremum(b, "Max", y, b.constant(1, x.dtype))
        if x.dtype.kind == "i" and b.chance(0.3):
            y = b.emit("Neg", y)
    else:
        y = b.constant(3, x.dtype)
    # Avoid the single quotient that overflows.
    if x.dtype.kind == "i" and x.dtype.itemsize >= 4 and b.opset >= 12:
        x = s.extremum(b, "Max", x, b.constant(-np.iinfo(x.dtype).max, x.dtype))
    if b.chance(0.5):
        return b.emit("Div", x, y, shape=x.shape)
    b.since(10)
    kind: Attributes = {"fmod": 1} if b.chance(0.4) else {}
    return b.emit("Mod", x, y, shape=x.shape, **kind)


def bitwise(b: Builder, x: Value, y: Value) -> Value:
    """Append shifts by less than the width, or operations on bits."""
    if x.dtype.kind == "u" and b.chance(0.5):
        b.since(11)
        width = 8 * x.dtype.itemsize
        count = b.constant(b.random.integers(0, width, x.shape[-1:]), x.dtype)
        return b.emit("BitShift", x, count, shape=x.shape, direction=b.pick("LEFT", "RIGHT"))
    b.since(18)
    op = b.pick("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
    return b.emit(op, x, *([] if op == "BitwiseNot" else [y]), shape=x.shape)


def ordered(b: Builder, x: Value, y: Value) -> Value:
    """Append extremes or comparisons."""
    match b.size(0, 2):
        case 0:
            return (
                b.emit("Max" if b.chance(0.5) else "Min", x, y, shape=x.shape)
                if (b.opset >= 12)
                else x
            )
        case 1:
            op = b.pick("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
            if x.dtype.itemsize < 4:
                b.since(11)
            return s.where(b, s.compare(b, op, x, y), x, y) if x.shape == y.shape else x
        case _:
            limits = np.iinfo(x.dtype)
            return s.clip(b, x, max(limits.min, -5), min(limits.max, 100))


def converted(b: Builder, x: Value, y: Value) -> Value:
    """Append casts: integers wrap around, and nonzero values are true."""
    if b.chance(0.25):
        return s.cast(b, s.cast(b, x, BOOL), x.dtype)
    if b.chance(0.3):
        # Convert through floats within the range of the type.
        limited = s.clip(b, x, max(np.iinfo(x.dtype).min, -100), 100)
        real = b.emit("Mul", s.cast(b, limited, FLOAT), b.constant(b.pick(0.5, 0.75, 1.25)))
        return s.cast(b, s.clip(b, real, 0.0 if x.dtype.kind == "u" else -120.0, 120.0), x.dtype)
    return s.cast(b, x, b.pick("int64", "int32", "uint8", "int8", "int16"))


def indices(b: Builder) -> Case:
    """Build shapes, gathers, selections and searches, with negative indices and ties."""
    rows, columns = b.size(2, 4), b.size(3, 6)
    dtype = b.pick(FLOAT, FLOAT, INT64, np.dtype(np.int32))
    sampler = tied if dtype == FLOAT else below(5, -4)
    x = b.input((rows, columns), sampler, dtype)
    steps = [
        gathered,
        searched,
        sorted_rows,
        selected,
        shape_arithmetic,
        one_hot,
        cumulative,
        scattered,
        logic,
        ranged,
        bucketed,
    ]
    for index in b.random.permutation(len(steps))[: b.size(1, 4)]:
        value = steps[int(index)](b, x)
        b.output(value)
        if value.shape == x.shape and value.dtype == x.dtype:
            x = value
    return b.case()


def tied(random: np.random.Generator, shape: tuple[int, ...], index: int) -> np.ndarray:  # type: ignore
    """Draw few different values, so that orders have ties; halves occur."""
    values = random.integers(-3, 4, shape) / 2
    return np.where(random.random(shape) < 0.2, -0.0, values) if index else normal(random, shape, 0)


def gathered(b: Builder, x: Value) -> Value:
    axis = b.pick(0, 1)
    extent = x.shape[axis]
    low = -extent if b.opset >= 11 else 0
    kind = b.size(0, 3)
    if kind == 0 and b.opset >= 11:
        shape = tuple(b.size(1, e) if i != axis else b.size(1, 4) for i, e in enumerate(x.shape))
        places = b.input(shape, below(extent, low), INT64)
        return b.emit("GatherElements", x, places, shape=shape, axis=axis)
    if kind == 1 and b.opset >= 11:
        places = b.input((3, 2), below(min(x.shape), -min(x.shape)), INT64)
        return b.emit("GatherND", x, places, shape=(3,))
    places = b.input(b.pick((), (2,), (2, 2)), below(extent, low), b.pick(INT64, np.int32))
    shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    return b.emit("Gather", x, places, shape=shape, axis=axis)


def searched(b: Builder, x: Value) -> Value:
    return s.arg(b, b.pick("ArgMax", "ArgMin"), x, b.pick(0, 1), keep=b.chance(0.5))


def sorted_rows(b: Builder, x: Value) -> Value:
    if x.dtype != FLOAT:
        b.since(11)
    values, places = s.top_k(b, x, b.size(1, x.shape[1]))
    b.output(places)
    return values


def selected(b: Builder, x: Value) -> Value:
    b.since(9)
    if x.dtype == FLOAT:
        b.since(9)
    threshold = b.constant(b.pick(0, 1, -1), x.dtype)
    mask = s.compare(b, b.pick("Greater", "Less"), x, threshold)
    if b.chance(0.3):
        mask = b.emit("Not", mask)
    return b.emit(
        "Where", mask, x, b.constant(b.pick(0, 2, -2), x.dtype), shape=x.shape, dtype=x.dtype
    )


def shape_arithmetic(b: Builder, x: Value) -> Value:
    """Compute a shape as exporters do: Shape, Gather, Mul, Concat, Reshape."""
    shape = b.emit("Shape", x, shape=(2,), dtype=INT64)
    first, second = (
        b.emit("Gather", shape, b.constant(i, np.int64), shape=(), axis=0) for i in (0, 1)
    )
    count = b.emit("Mul", first, second)
    if b.chance(0.5):
        target = b.emit("Concat", s.unsqueeze(b, count, 0), b.integers(1), axis=0, shape=(2,))
        return b.emit("Reshape", x, target, shape=(x.shape[0] * x.shape[1], 1))
    parts = [s.unsqueeze(b, v, 0) for v in (second, first)]
    target = b.emit("Concat", *parts, axis=0, shape=(2,))
    return b.emit("Reshape", x, target, shape=x.shape[::-1])


def one_hot(b: Builder, x: Value) -> Value:
    b.since(9)
    depth = b.size(2, 5)
    places = b.input((x.shape[0],), below(depth + 1, -depth - 1 if b.opset >= 11 else 0), INT64)
    values = b.constant([b.pick(0, -1), b.pick(1, 2)], x.dtype)
    axis = b.pick(-1, 0, 1)
    shape = (depth, x.shape[0]) if axis == 0 else (x.shape[0], depth)
    return b.emit(
        "OneHot", places, b.integers(depth), values, shape=shape, dtype=x.dtype, axis=axis
    )


def cumulative(b: Builder, x: Value) -> Value:
    b.since(11)
    axis = b.constant(b.pick(0, 1, -1), np.int64)
    flags: Attributes = {"exclusive": b.pick(0, 1), "reverse": b.pick(0, 1)}
    return b.emit("CumSum", x, axis, shape=x.shape, **flags)


def scattered(b: Builder, x: Value) -> Value:
    """Append updates at indices that differ."""
    b.since(11)
    if b.chance(0.5):

        def distinct(random: np.random.Generator, shape: tuple[int, ...], _: int):  # type: ignore
            return np.stack([random.permutation(x.shape[1])[: shape[1]] for _ in range(shape[0])])

        shape = (x.shape[0], b.size(1, x.shape[1]))
        places = b.input(shape, distinct, INT64)
        updates = b.constant(b.random.integers(5, 9, shape), x.dtype)
        return b.emit("ScatterElements", x, places, updates, shape=x.shape, axis=1)

    def row(random: np.random.Generator, shape: tuple[int, ...], _: int):  # type: ignore
        return random.permutation(x.shape[0])[: shape[0], None]

    places = b.input((b.size(1, 2), 1), row, INT64)
    updates = b.constant(b.random.integers(5, 9, (places.shape[0], x.shape[1])), x.dtype)
    return b.emit("ScatterND", x, places, updates, shape=x.shape)


def logic(b: Builder, x: Value) -> Value:
    """Combine booleans: And, Or, Xor, Not, and comparisons of booleans."""
    p, q = (b.input(x.shape, bits, BOOL) for _ in range(2))
    for _ in range(b.size(1, 4)):
        op = b.pick("And", "Or", "Xor", "Not", "Equal")
        p = b.emit("Not", p) if op == "Not" else b.emit(op, p, q, dtype=BOOL)
    return p if b.chance(0.5) else s.where(b, p, x, b.emit("Add", x, x))


def bucketed(b: Builder, x: Value) -> Value:
    """Divide positions by a constant and round, as for buckets of relative positions."""
    places = b.input(x.shape, below(300, -50), INT64)
    divisor = b.constant(b.pick(3.0, 7.0, 41.0, 47.0, 255.0))
    share = b.emit("Div", s.cast(b, places, FLOAT), divisor, shape=x.shape)
    if b.chance(0.3):
        share = b.emit("Add", share, b.constant(b.pick(0.5, 1.0)))
    if b.chance(0.3):
        return s.cast(b, share, INT64)
    if b.chance(0.3) and b.opset >= 9:
        return s.compare(b, b.pick("Less", "Greater"), share, b.constant(b.pick(1.0, 3.0)))
    return b.emit(b.pick("Floor", "Ceil"), share)


def ranged(b: Builder, x: Value) -> Value:
    """Compare positions from Range with lengths, as for the masks of exported transformers."""
    b.since(11)
    count = x.shape[1]
    ends = [b.constant(v, np.int64) for v in (0, count, 1)]
    places = b.emit("Range", *ends, shape=(count,))
    lengths = b.input((x.shape[0], 1), below(count + 1), INT64)
    mask = s.compare(b, "Less", places, lengths)
    if b.chance(0.5):
        return b.emit("Where", mask, x, b.constant(0, x.dtype), shape=x.shape, dtype=x.dtype)
    return s.reduce(b, "ReduceSum", s.cast(b, mask, INT64), 1)
