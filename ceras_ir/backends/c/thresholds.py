"""Print comparisons with thresholds, in the order of the channels for vector instructions."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.layer import Layer, prints
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import ThresholdOp, shape_of

MAX_COMPARED = 15
"""The thresholds of a channel that are all compared, instead of a binary search."""


@prints(ThresholdOp)
def threshold(layer: Layer, op: ThresholdOp) -> None:
    channels, size = shape_of(op.thresholds)[1], prod(shape_of(op.result))
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    limits, storage = layer.read(op.thresholds, "thresholds"), value_type(op.result)
    per_channel = max(channels, op.offsets.size, op.steps.size)
    columns = per_channel if per_channel > 1 else size
    offset, step = (
        _element(layer, name, values)
        for name, values in (("offset", op.offsets), ("step", op.steps))
    )
    if layer.shares(size) and size > columns:
        layer.line("MODEL_THREADS(1)")
    with layer.nested("r", [size // columns]) as depth:
        layer.line(f"const {value_type(op.input)} *const row = {x} + r0 * {columns};", depth)
        layer.line(f"{storage} *const result = {y} + r0 * {columns};", depth)
        at = "c" if channels > 1 else "0"
        if op.levels > MAX_COMPARED:
            body = _search(op.levels, f"{limits}[(count + half - 1) * {channels} + {at}]")
            body.append(f"result[c] = ({storage})({offset} + {step} * count);")
            layer.loop("c", columns, body, depth)
        else:
            layer.loop("c", columns, [f"result[c] = ({storage}){offset};"], depth)
            with layer.nested("k", [op.levels], depth) as inner:
                reached = f"(row[c] >= {limits}[k0 * {channels} + {at}])"
                term = reached if step == "1" else f"{step} * {reached}"
                layer.loop("c", columns, [f"result[c] = ({storage})(result[c] + {term});"], inner)


def _element(layer: Layer, name: str, values: NDArray[np.int64]) -> str:
    """Return the C expression of an integer for channel `c`."""
    if values.size == 1:
        return str(int(values[0]))
    return f"{layer.array(name, values.astype(np.int16), 'int16_t')}[c]"


def _search(levels: int, limit: str) -> list[str]:
    """Return the C lines that count the thresholds that `row[c]` reaches by binary search."""
    first = 1 << levels.bit_length() - 1
    return [
        "int32_t count = 0;",
        f"for (int32_t half = {first}; half > 0; half /= 2) {{",
        f"  if (count + half <= {levels} && row[c] >= {limit}) {{",
        "    count += half;",
        "  }",
        "}",
    ]
