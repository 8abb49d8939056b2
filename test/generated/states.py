"""Build networks with states: filters, recurrent cells and streams of frames."""

from __future__ import annotations

import numpy as np
from generated import spelling as s
from generated.builder import FLOAT, INT64, Attributes, Builder, Case, Value, normal


def streaming(b: Builder) -> Case:
    """Build a chain of steps; each may have a state."""
    width = b.size(2, 8)
    x = b.input((1, width), normal)
    steps = [
        moving_average,
        delay_line,
        gated_cell,
        counter,
        recurrent_layer,
        causal_convolution,
        running_norm,
        held,
    ]
    for index in b.random.permutation(len(steps))[: b.size(1, 3)]:
        x = steps[int(index)](b, x)
        if b.chance(0.4):
            x = b.emit(b.pick("Relu", "Tanh", "Sigmoid"), x)
        if b.chance(0.4):
            x = s.linear(b, x, b.size(2, 6))
    b.output(x)
    if b.chance(0.3):
        # The caller has to return all states to the network.
        b.states.clear()
    return b.case(samples=8)


def state(b: Builder, *shape: int) -> Value:
    return b.input(shape, normal)


def keep(b: Builder, old: Value, new: Value) -> None:
    b.states[old.name] = b.output(new).name


def moving_average(b: Builder, x: Value) -> Value:
    """Append an exponential average, which some filters subtract."""
    old, decay = state(b, *x.shape), b.pick(0.9, 0.5, 0.99)
    new = b.emit(
        "Add", b.emit("Mul", old, b.constant(decay)), b.emit("Mul", x, b.constant(1 - decay))
    )
    keep(b, old, new)
    return new if b.chance(0.5) else b.emit("Sub", x, new)


def delay_line(b: Builder, x: Value) -> Value:
    """Multiply the last frames by a single matrix."""
    width, taps = x.shape[1], b.size(2, 4)
    old = state(b, 1, taps, width)
    frames = b.emit(
        "Concat", s.slices(b, old, 1, 1), s.unsqueeze(b, x, 1), axis=1, shape=(1, taps, width)
    )
    keep(b, old, frames)
    flat = b.emit("Flatten", frames, shape=(1, taps * width), axis=1)
    return s.linear(b, flat, b.size(2, 6))


def gated_cell(b: Builder, x: Value) -> Value:
    """Append a GRU cell composed of operations."""
    width = b.size(2, 5)
    old = state(b, 1, width)
    parts = b.emit("Concat", x, old, axis=1, shape=(1, x.shape[1] + width))
    update, reset = (b.emit("Sigmoid", s.linear(b, parts, width)) for _ in range(2))
    inner = b.emit("Concat", x, b.emit("Mul", reset, old), axis=1, shape=parts.shape)
    candidate = b.emit("Tanh", s.linear(b, inner, width))
    rest = b.emit("Sub", b.constant(1.0), update)
    new = b.emit("Add", b.emit("Mul", update, old), b.emit("Mul", rest, candidate))
    keep(b, old, new)
    return new


def counter(b: Builder, x: Value) -> Value:
    """Count the frames; the count divides a running sum or selects a branch."""
    count, total = state(b, 1, 1), state(b, *x.shape)
    new = b.emit("Add", count, b.constant(1.0))
    added = b.emit("Add", total, x)
    keep(b, count, new)
    keep(b, total, added)
    if b.opset >= 9 and b.chance(0.5):
        late = s.compare(b, "Greater", new, b.constant(3.0))
        return s.where(b, late, b.emit("Div", added, new), x)
    return b.emit("Div", added, new)


def recurrent_layer(b: Builder, x: Value) -> Value:
    """Append LSTM, GRU or RNN of a single step."""
    op, gates = b.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    width, inputs = b.size(2, 4), x.shape[1]
    sequence = s.unsqueeze(b, x, 0)
    matrices = [b.constant(b.random.normal(0, 0.5, (1, gates * width, n))) for n in (inputs, width)]
    bias = b.constant(b.random.normal(0, 0.3, (1, 2 * gates * width)))
    old = [state(b, 1, 1, width) for _ in range(2 if op == "LSTM" else 1)]
    more: Attributes = {"linear_before_reset": b.pick(0, 1)} if op == "GRU" else {}
    shapes = [((1, 1, 1, width), None), *(((1, 1, width), None) for _ in old)]
    results = b.emit_all(
        op, [sequence, *matrices, bias, None, *old], shapes, hidden_size=width, **more
    )
    for before, after in zip(old, results[1:], strict=True):
        keep(b, before, after)
    return s.reshape(b, results[0], 1, width)


def causal_convolution(b: Builder, x: Value) -> Value:
    """Append a convolution over time; the past frames are a state."""
    width, taps, outputs = x.shape[1], b.size(2, 4), b.size(2, 5)
    old = state(b, 1, width, taps - 1)
    frames = b.emit("Concat", old, s.unsqueeze(b, x, 2), axis=2, shape=(1, width, taps))
    keep(b, old, s.slices(b, frames, 2, 1))
    kernel = b.constant(b.random.normal(0, 0.5, (outputs, width, taps)))
    offset = b.constant(b.random.normal(0, 0.2, outputs))
    result = b.emit("Conv", frames, kernel, offset, shape=(1, outputs, 1), kernel_shape=[taps])
    return s.squeeze(b, result, 2)


def running_norm(b: Builder, x: Value) -> Value:
    """Normalize frames by running statistics, with a guarded root."""
    mean, variance = state(b, *x.shape), state(b, *x.shape)
    rate, epsilon = b.constant(b.pick(0.1, 0.25)), b.constant(b.pick(1e-5, 1e-12, 1e-3))
    difference = b.emit("Sub", x, mean)
    keep(b, mean, b.emit("Add", mean, b.emit("Mul", rate, difference)))
    change = b.emit("Sub", b.emit("Mul", difference, difference), variance)
    new = b.emit("Add", variance, b.emit("Mul", rate, change))
    keep(b, variance, new)
    root = b.emit("Sqrt", s.clip(b, new, 0.0))
    return b.emit("Div", difference, b.emit("Add", root, epsilon))


def held(b: Builder, x: Value) -> Value:
    """Hold the maximum value so far, and an index of int64 that counts in a ring."""
    old, place = state(b, *x.shape), b.input((1,), normal, INT64)
    new = s.extremum(b, "Max", b.emit("Mul", old, b.constant(0.95)), x)
    keep(b, old, new)
    count = b.emit("Add", place, b.integers(1))
    if b.opset >= 10:
        count = b.emit("Mod", count, b.integers(3))
    keep(b, place, count)
    share = s.cast(b, count, FLOAT)
    return b.emit("Add", x, b.emit("Mul", new, b.emit("Div", share, b.constant(np.float32(3)))))
