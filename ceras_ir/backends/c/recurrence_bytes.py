"""
Print an LSTM with a dynamically quantized state for vectors of 16 lanes: products of bytes.

The weights are in panels of rows. The functions of a panel follow the products of the next panel,
so that the processor computes functions while it loads weights from a cache. Odd steps begin with
the last panel, which is still in a cache.
"""

from dataclasses import dataclass

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import HAS_16_LANES
from ceras_ir.backends.c.vector_functions import apply_in_loop
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import RecurrenceOp, shape_of
from ceras_ir.interpreters.float_text import float_literal

PANEL = 64
"""Outputs of a panel."""


def state_pitch(op: RecurrenceOp) -> int:
    """Return the number of elements of a quantized state, rounded up to a multiple of four."""
    return -(-shape_of(op.state)[1] // 4) * 4


@dataclass(frozen=True)
class Pointers:
    """
    The C expressions of the operands of a recurrent layer. If the state is quantized dynamically,
    they include the result and the scales of weights.
    """

    x: str
    start: str
    cell: str | None
    bias: str | None
    y: str = ""
    scales: str = ""
    """A literal, or an array of the scale of each row."""

    @staticmethod
    def of(layer: Layer, op: RecurrenceOp) -> "Pointers":
        x, start = layer.read(op.input, "x"), layer.read(op.state, "start")
        cell, bias = layer.read_if(op.cell, "cell"), layer.read_if(op.bias, "bias")
        if op.scales is None:
            return Pointers(x, start, cell, bias)
        values = op.scales[0]
        scales = float_literal(float(values[0]))
        if values.size > 1:
            scales = layer.array("weights_scales", values, "float")
        return Pointers(x, start, cell, bias, layer.write(op.result), scales)

    def scale(self, row: str) -> str:
        """Return the C expression of the scale of the weights of the row with the C index `row`."""
        return f"{self.scales}[{row}]" if self.scales.isupper() else self.scales


def lstm_of_bytes(layer: Layer, op: RecurrenceOp, pointers: Pointers) -> None:
    assert op.scales is not None
    (steps, batch, width), hidden = shape_of(op.input), shape_of(op.state)[1]
    rows, pitch, zero_point = batch * hidden, state_pitch(op), op.scales[1]
    panels, size = -(-width // PANEL), PANEL * (pitch + 4)
    w = layer.constant("weights", "int8_t", panels * size, 1, lambda: _panels(op), HAS_16_LANES)
    quantize, multiply = layer.kernels.use("quantize_bytes"), layer.kernels.use("multiply_panel")
    layer.scratch("uint8_t", "q", batch * pitch, 1)
    layer.scratch("int32_t", "sums", 2 * batch * PANEL, 4)
    layer.scratch("float", "p", batch * width, 4)
    moved = ""
    if zero_point:
        # Each sum contains the zero point of the weights times the sum of the state.
        layer.scratch("int32_t", "moved", batch, 4)
        total = f"{layer.kernels.use('sum_bytes')}(q + b * {pitch}, {hidden}, point)"
        moved = f"for (int32_t b = 0; b < {batch}; ++b) moved[b] = {zero_point} * {total};"
    product = f"(float){'(s[j] - moved[b])' if zero_point else 's[j]'}"
    product = f"{product} * (scale * {pointers.scale('first + j')})"
    product = f"({product} + {pointers.bias}[first + j])" if pointers.bias else product
    f, g, k = op.functions
    if hidden % PANEL:
        rest = f"const int32_t count = {width} - first < {PANEL} ? {width} - first : {PANEL};"
        part = f"{3 * hidden} - first < 0 ? 0 : {3 * hidden} - first"
        rest += f"\nconst int32_t part = {3 * hidden} - first < count ? {part} : count;"
        functions = f"""\
{apply_in_loop(layer, f, "to", "to", "part")}
{apply_in_loop(layer, g, "(to + part)", "(to + part)", "count - part")}"""
    else:
        rest = f"const int32_t count = {PANEL};"
        functions = f"""\
if (first < {3 * hidden}) {{
{apply_in_loop(layer, f, "to", "to", "count")}
}}
else {{
{apply_in_loop(layer, g, "to", "to", "count")}
}}"""
    text = f"""\
(void)memcpy({pointers.y} + {steps * rows}, {pointers.cell}, {rows}U * sizeof *{pointers.y});
for (int32_t t = 0; t < {steps}; ++t) {{
int32_t point;
const float *before = t ? {pointers.y} + (t - 1) * {rows} : {pointers.start};
const float scale = {quantize}(q, &point, before, {batch}, {hidden}, {pitch});
{moved}
for (int32_t turn = 0; turn <= {panels}; ++turn) {{
const int32_t next = t % 2 ? {panels - 1} - turn : turn;
const int32_t first = (t % 2 ? next + 1 : next - 1) * {PANEL};
{rest}
int32_t *now = sums + turn % 2 * {batch * PANEL};
const int32_t *done = sums + (turn + 1) % 2 * {batch * PANEL};
if (turn < {panels}) {multiply}(now, q, {w} + next * {size}, point, {batch}, {pitch});
if (!turn) continue;
for (int32_t b = 0; b < {batch}; ++b) {{
const float *in = {pointers.x} + (t * {batch} + b) * {width} + first;
const int32_t *s = done + b * {PANEL};
float *to = p + b * {width} + first;
MODEL_ALIKE
for (int32_t j = 0; j < count; ++j) to[j] = in[j] + {product};
{functions}
}}
}}
for (int32_t b = 0; b < {batch}; ++b) {{
const float *in = p + b * {width};
float *c = {pointers.y} + {steps * rows} + b * {hidden};
float *to = {pointers.y} + (t * {batch} + b) * {hidden};
MODEL_ALIKE
for (int32_t j = 0; j < {hidden}; ++j) {{
c[j] = in[{2 * hidden} + j] * c[j] + in[j] * in[{3 * hidden} + j];
}}
{apply_in_loop(layer, k, "c", "to", str(hidden))}
MODEL_ALIKE
for (int32_t j = 0; j < {hidden}; ++j) to[j] = in[{hidden} + j] * to[j];
}}
}}"""
    depth = 0
    for line in filter(None, text.splitlines()):
        depth -= line.startswith("}")
        layer.line(line, depth)
        depth += line.endswith("{")


def _panels(op: RecurrenceOp) -> Array:
    """
    Return the int8 weights in panels of 64 rows: the 32-bit sums of the weights of each row, then
    the weights as [pitch / 4][rows][4], where `pitch` is the padded length of a row.
    """
    weights = graph.constant_array(op.weights)
    assert weights is not None
    (width, hidden), pitch = weights.shape, state_pitch(op)
    panels = np.zeros((-(-width // PANEL), PANEL, pitch), np.int8)
    panels.reshape(-1, pitch)[:width, :hidden] = weights
    sums = panels.sum(2, dtype=np.int32).astype("<i4").view(np.int8)
    words = panels.reshape(-1, PANEL, pitch // 4, 4).swapaxes(1, 2)
    return np.concatenate([sums, words.reshape(len(panels), -1)], axis=1).reshape(-1)
