"""Boxes that others do not suppress."""

from math import isfinite

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.dialects.graph import SuppressOp, shape_of
from ceras_ir.interpreters.float_text import float_literal


@prints(SuppressOp)
def suppress(layer: Layer, op: SuppressOp) -> None:
    """`graph.suppress`."""
    (images, count, _), kinds = shape_of(op.boxes), shape_of(op.scores)[1]
    rows, least = shape_of(op.result)[0], op.least.value.data
    boxes, scores = layer.read(op.boxes, "boxes"), layer.read(op.scores, "scores")
    y = layer.write(op.result)
    left = layer.scratch("uint8_t", "left", count, 1)
    # Nothing is greater than positive infinity; what is finite or more is greater than the other.
    above = f"score[i] > {float_literal(least)}" if isfinite(least) else f"{int(least < 0)}"
    if least == float("-inf"):
        above = "score[i] >= -FLT_MAX"
    layer.line("int32_t rows = 0;")
    with layer.nested("i", (images, kinds)) as depth:
        layer.block(
            [
                f"const float *box = {boxes} + i0 * {count * 4};",
                f"const float *score = {scores} + (i0 * {kinds} + i1) * {count};",
                f"for (int32_t i = 0; i < {count}; ++i) {left}[i] = {above};",
                f"for (int32_t n = 0; n < {op.most.value.data} && rows < {rows}; ++n) {{",
                "  int32_t best = -1;",
                f"  for (int32_t i = 0; i < {count}; ++i)",
                f"    if ({left}[i] && (best < 0 || score[i] > score[best])) best = i;",
                "  if (best < 0) break;",
                f"  {y}[rows * 3] = i0;",
                f"  {y}[rows * 3 + 1] = i1;",
                f"  {y}[rows * 3 + 2] = best;",
                "  ++rows;",
                "  const float *a = box + best * 4;",
                "  const float height = a[2] - a[0], width = a[3] - a[1];",
                "  const float area = (height > 0.0f ? height : 0.0f) * "
                "(width > 0.0f ? width : 0.0f);",
                f"  {left}[best] = 0;",
                f"  for (int32_t i = 0; i < {count}; ++i) {{",
                "    const float *b = box + i * 4;",
                "    const float h = b[2] - b[0], w = b[3] - b[1];",
                "    const float other = (h > 0.0f ? h : 0.0f) * (w > 0.0f ? w : 0.0f);",
                "    const float tall = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);",
                "    const float wide = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);",
                "    const float shared = (tall > 0.0f ? tall : 0.0f) * "
                "(wide > 0.0f ? wide : 0.0f);",
                "    const float all = area + other - shared;",
                "    if (shared > 0.0f && area > 0.0f && other > 0.0f && all > 0.0f && "
                f"shared / all > {float_literal(op.overlap.value.data)}) {left}[i] = 0;",
                "  }",
                "}",
            ],
            depth,
        )
    layer.line(f"for (; rows < {rows}; ++rows)")
    layer.line(f"  {y}[rows * 3] = {y}[rows * 3 + 1] = {y}[rows * 3 + 2] = -1;")
