"""Build Loop, Scan and If: carried values, conditions, stacked outputs, captures, nesting."""

from __future__ import annotations

import numpy as np
import onnx
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
    normal,
)


def control_flow(b: Builder) -> Case:
    """Build a chain of rows through loops, scans and branches."""
    x = b.input((b.size(1, 3), b.size(2, 5)), normal)
    for _ in range(b.size(1, 3)):
        x = b.pick(loop, loop, scan, branch, nested, counting)(b, x)
        if b.chance(0.3):
            x = b.emit("Tanh", x)
    b.output(x)
    return b.case()


def step(b: Builder, x: Value) -> Value:
    """Append some operations on a row, which keep the shape."""
    match b.size(0, 4):
        case 0:
            return b.emit("Tanh", s.linear(b, x, x.shape[-1]))
        case 1:
            return b.emit(
                "Add",
                b.emit("Mul", x, b.constant(b.pick(0.5, -0.75, 1.0))),
                b.constant(b.random.normal(size=x.shape[-1])),
            )
        case 2:
            return b.emit("Sigmoid", x)
        case 3:
            return s.clip(b, b.emit("Sub", x, b.constant(0.25)), -2.0, 2.0)
        case _:
            total = s.reduce(b, "ReduceMean", x, x.rank - 1)
            return b.emit("Sub", x, total)


def arrays_differ(b: Builder, x: Value) -> Value:
    """Compute a condition from the data: a boolean without dimensions."""
    total = s.reduce(b, "ReduceSum", x, *range(x.rank), keep=False)
    return s.compare(b, b.pick("Greater", "Less"), total, b.constant(b.pick(0.0, 0.5, -1.0)))


def make_loop(
    b: Builder, trips: Value | None, x: Value, *, ends: bool, stacked: bool, deep: int = 0
) -> Value:
    """Append a Loop that carries x and a counter, and may stop early and stack rows."""
    iteration, condition = b.argument((), INT64), b.argument((), BOOL)
    carried, count = b.argument(x.shape), b.argument(())
    limit = b.constant(float(b.size(2, 4)))

    def build() -> list[Value]:
        inner = step(b, carried)
        if b.chance(0.3):
            inner = b.emit("Add", inner, x)
        if b.chance(0.3):
            inner = b.emit(
                "Mul", inner, b.emit("Add", s.cast(b, iteration, FLOAT), b.constant(0.5))
            )
            inner = b.emit("Tanh", inner)
        if deep:
            inner = (
                branch(b, inner)
                if b.chance(0.4)
                else make_loop(
                    b, b.constant(b.size(1, 3), np.int64), inner, ends=b.chance(0.4), stacked=False
                )
            )
        after = b.emit("Add", count, b.constant(1.0))
        going = s.compare(b, "Less", after, limit) if ends else b.emit("Identity", condition)
        if ends and b.chance(0.3) and x.rank == 2:
            going = b.emit("And", going, arrays_differ(b, inner))
        rows = [s.reduce(b, "ReduceMean", inner, x.rank - 1, keep=False)] if stacked else []
        return [going, inner, after, *rows]

    graph, results = b.body([iteration, condition, carried, count], build)
    start = b.constant(True, np.bool_) if ends or trips is None or b.chance(0.5) else None
    shapes: list[tuple[tuple[int, ...], np.dtype[np.float32] | None]] = [
        (x.shape, FLOAT),
        ((), FLOAT),
    ]
    count_of_rows = -1
    if stacked:
        count_of_rows = STACKED_ROWS
        shapes.append(((count_of_rows, *results[3].shape), FLOAT))
    zero = b.constant(0.0)
    made = b.emit_all("Loop", [trips, start, x, zero], shapes, body=graph)
    if not stacked:
        return b.emit("Add", made[0], made[1])
    return b.emit(
        "Add",
        made[0],
        s.reduce(b, "ReduceSum", made[2], 0, keep=False)
        if x.rank == 1
        else s.unsqueeze(b, s.reduce(b, "ReduceSum", made[2], 0, keep=False), 1),
    )


STACKED_ROWS = 3


def loop(b: Builder, x: Value) -> Value:
    """Append a loop with a constant or computed trip count, or with a condition."""
    kind = b.size(0, 3)
    if kind == 0:
        trips = b.constant(STACKED_ROWS, np.int64)
        return make_loop(b, trips, x, ends=False, stacked=b.chance(0.6))
    if kind == 1:
        # The number of steps is a graph input.
        trips = b.input((), below(6), INT64)
        return make_loop(b, trips, x, ends=b.chance(0.5), stacked=False)
    trips = b.constant(b.size(1, 12), np.int64) if kind == 2 or b.chance(0.5) else None
    return make_loop(b, trips, x, ends=True, stacked=False)


def nested(b: Builder, x: Value) -> Value:
    """Append a loop or a branch in a loop."""
    trips = b.constant(b.size(1, 3), np.int64)
    return make_loop(b, trips, x, ends=b.chance(0.5), stacked=False, deep=1)


def scan(b: Builder, x: Value) -> Value:
    """Append a Scan over rows or columns, in either direction, with stacked results."""
    b.since(9)
    axis = b.pick(0, 1)
    length = x.shape[axis]
    row = tuple(e for i, e in enumerate(x.shape) if i != axis)
    carried, element = b.argument(row), b.argument(row)

    def build() -> list[Value]:
        mixed = b.emit("Add", b.emit("Mul", carried, b.constant(0.5)), element)
        new = b.emit(b.pick("Tanh", "Sigmoid", "Relu"), mixed)
        return [new, b.emit("Sub", new, element)]

    graph, _ = b.body([carried, element], build)
    start = b.constant(b.random.normal(size=row))
    shapes = [(row, FLOAT), ((length, *row), FLOAT)]
    given: Attributes = {
        "scan_input_directions": [b.pick(0, 1)],
        "scan_output_directions": [b.pick(0, 1)],
    }
    given = given if b.chance(0.6) else {}
    axes: Attributes = {"scan_input_axes": [axis]} if axis or b.chance(0.3) else {}
    last, rows = b.emit_all(
        "Scan", [start, x], shapes, body=graph, num_scan_inputs=1, **axes, **given
    )
    rows = rows if axis == 0 else s.transpose(b, rows, 1, 0)
    last = s.unsqueeze(b, last, axis)
    return b.emit("Add", rows, last)


def branch(b: Builder, x: Value) -> Value:
    """Append an If on the data; the branches capture values and may be nested."""
    condition = arrays_differ(b, x)
    graphs: list[onnx.GraphProto] = []
    for _ in range(2):

        def build() -> list[Value]:
            value = step(b, x)
            return [step(b, value) if b.chance(0.5) else value]

        graphs.append(b.body([], build)[0])
    return b.emit(
        "If",
        condition,
        shape=x.shape,
        dtype=FLOAT,
        then_branch=graphs[0],
        else_branch=graphs[1],
    )


def counting(b: Builder, x: Value) -> Value:
    """Append a loop over integers that Gathers a row in each step, as in exported decoders."""
    b.since(13)
    rows, width = x.shape
    iteration, condition = b.argument((), INT64), b.argument((), BOOL)
    place, total = b.argument((), INT64), b.argument((width,))

    def build() -> list[Value]:
        row = b.emit("Gather", x, place, shape=(width,), axis=0)
        after = b.emit("Add", b.emit("Mul", place, b.constant(5, np.int64)), iteration)
        next_place = b.emit("Mod", after, b.constant(rows, np.int64))
        added = b.emit("Add", b.emit("Mul", total, b.constant(0.5)), row)
        return [b.emit("Identity", condition), next_place, added]

    graph, _ = b.body([iteration, condition, place, total], build)
    start = b.input((), below(rows), INT64)
    made = b.emit_all(
        "Loop",
        [
            b.constant(b.size(2, 6), np.int64),
            b.constant(True, np.bool_),
            start,
            b.constant(np.zeros(width)),
        ],
        [((), INT64), ((width,), FLOAT)],
        body=graph,
    )
    b.output(made[0])
    return b.emit("Add", x, made[1])
