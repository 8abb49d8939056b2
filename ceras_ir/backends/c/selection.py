"""
Print operations that select elements or rows, or write them to computed positions.

The operations are slice, gather, take, pad, put, non-maximum suppression, and tree ensembles.
"""

from math import isfinite, prod

import numpy as np

from ceras_ir.backends.c.layer import Layer, nest, prints, row_major
from ceras_ir.backends.c.reduction import COMBINING_OPERATORS
from ceras_ir.backends.c.values import combine, int_literal, value_type
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.interpreters.selection import border_indices


@prints(graph.SliceOp)
def slice_(layer: Layer, op: graph.SliceOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, strides = shape_of(op.result), row_major(shape_of(op.input))
    starts = op.starts.get_values()
    first = sum(a * s for a, s in zip(starts, strides, strict=True))
    steps = [a * s for a, s in zip(op.strides.get_values(), strides, strict=True)]
    layer.line(f"const {value_type(op.input)} *from = {x} + {first};")
    nest(layer, shape, [row_major(shape), steps], lambda at: [f"{y}[{at[0]}] = from[{at[1]}];"])


@prints(graph.GatherOp)
def gather(layer: Layer, op: graph.GatherOp) -> None:
    shape, axis = shape_of(op.input), op.axis.value.data
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    indices = op.indices.get_values()
    table = layer.array("indices", np.array(indices, np.int32), "int32_t")
    inner = prod(shape[axis + 1 :])
    layer.line(f"for (int32_t i = 0; i < {prod(shape[:axis])}; ++i) {{")
    source = f"{x} + (i * {shape[axis]} + {table}[j]) * {inner}"
    layer.loop(
        "j",
        len(indices),
        [
            f"(void)memcpy({y} + (i * {len(indices)} + j) * {inner}, {source}, "
            f"{inner}U * sizeof *{y});"
        ],
        1,
    )
    layer.line("}")


@prints(graph.TakeOp)
def take(layer: Layer, op: graph.TakeOp) -> None:
    (rows, width), count = shape_of(op.input), shape_of(op.indices)[0]
    x, at = layer.read(op.input, "x"), layer.read(op.indices, "at")
    y = layer.write(op.result)
    copy = f"(void)memcpy({y} + i * {width}, {x} + row * {width}, {width}U * sizeof *{y});"
    layer.loop("i", count, [*row_lines(at, rows), copy])


def row_lines(at: str, rows: int) -> list[str]:
    """
    Return the C statements that set `row` to index `i` of the C array `at`. Negative indices count
    from the end of `rows` rows, and others are clamped.
    """
    return [
        f"int64_t row = (int64_t){at}[i];",
        f"row = row < 0 ? row + {rows} : row;",
        f"row = row < 0 ? 0 : row > {rows - 1} ? {rows - 1} : row;",
    ]


@prints(graph.PadOp)
def pad(layer: Layer, op: graph.PadOp) -> None:
    """
    Print `graph.pad`. Constant padding is a fill and a strided copy; other padding, such as
    reflection, uses a table of source indices for each axis.
    """
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = shape_of(op.input), shape_of(op.result)
    low = op.low.get_values()
    if op.function is graph.Pad.CONSTANT:
        stored = op.stored_value
        fill = (
            float_literal(stored) if value_type(op.result) == "float" else int_literal(int(stored))
        )
        layer.loop("i", prod(target), [f"{y}[i] = {fill};"])
        strides = row_major(target)
        first = sum(a * s for a, s in zip(low, strides, strict=True))
        between = op.interior.get_values()
        steps = [(i + 1) * s for i, s in zip(between, strides, strict=True)]
        layer.line(f"{value_type(op.result)} *to = {y} + {first};")
        nest(layer, source, [steps, row_major(source)], lambda at: [f"to[{at[0]}] = {x}[{at[1]}];"])
        return
    tables: list[str] = []
    for d, (n, size, stride) in enumerate(zip(source, target, row_major(source), strict=True)):
        index = border_indices(op.function, n, low[d], size - n - low[d]) * stride
        tables.append(layer.array(f"from_{d}", index.astype(np.int32), "int32_t"))
    layer.line("int32_t to = 0;")
    index = " + ".join(f"{table}[i{d}]" for d, table in enumerate(tables)) or "0"
    with layer.nested("i", target) as depth:
        layer.line(f"{y}[to++] = {x}[{index}];", depth)


@prints(graph.PutOp)
def put(layer: Layer, op: graph.PutOp) -> None:
    (count, width), n = shape_of(op.input), shape_of(op.indices)[0]
    x, at = layer.read(op.input, "x"), layer.read(op.indices, "at")
    rows, y = layer.read(op.rows, "rows"), layer.write(op.result)
    layer.line(f"(void)memcpy({y}, {x}, {prod(shape_of(op.input))}U * sizeof *{y});")
    body = [
        f"int64_t row = (int64_t){at}[i];",
        f"row = row < 0 ? row + {count} : row;",
        f"if (row < 0 || row >= {count}) continue;",
    ]
    if op.function is None:
        body.append(
            f"(void)memcpy({y} + row * {width}, {rows} + i * {width}, {width}U * sizeof *{y});"
        )
    else:
        kind = COMBINING_OPERATORS[op.function]
        value = combine(layer.kernels, kind, value_type(op.result), "a", "b")
        body += [
            f"for (int32_t j = 0; j < {width}; ++j) {{",
            f"  const {value_type(op.result)} a = {y}[row * {width} + j];",
            f"  const {value_type(op.result)} b = {rows}[i * {width} + j];",
            f"  {y}[row * {width} + j] = {value};",
            "}",
        ]
    layer.loop("i", n, body)


@prints(graph.SuppressOp)
def suppress(layer: Layer, op: graph.SuppressOp) -> None:
    (images, count, _), kinds = shape_of(op.boxes), shape_of(op.scores)[1]
    rows, threshold = shape_of(op.result)[0], op.least.value.data
    boxes, scores = layer.read(op.boxes, "boxes"), layer.read(op.scores, "scores")
    y = layer.write(op.result)
    left = layer.scratch("uint8_t", "left", count, 1)
    # No value exceeds positive infinity. All finite values exceed negative infinity.
    above = (
        f"score[i] > {float_literal(threshold)}" if isfinite(threshold) else f"{int(threshold < 0)}"
    )
    if threshold == float("-inf"):
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


@prints(graph.TreeEnsembleOp)
def tree_ensemble(layer: Layer, op: graph.TreeEnsembleOp) -> None:
    (rows, inputs), (trees,) = shape_of(op.input), shape_of(op.roots)
    outputs, width = shape_of(op.result)[1], shape_of(op.leaves)[1]
    feature, child = value_type(op.features), value_type(op.children)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    features, thresholds, children, roots, columns, leaves = (
        layer.read(getattr(op, name), name)
        for name in ("features", "thresholds", "children", "roots", "columns", "leaves")
    )
    name = f"{feature}_{child}".replace("_t", "")
    walk = layer.kernels.use("tree_leaf", NAME=name, FEATURE=feature, CHILD=child)
    layer.loop("i", rows * outputs, [f"{y}[i] = 0.0f;"])
    row = f"{x} + n * {inputs}" if rows > 1 else x
    to = f"{y} + n * {outputs} + {columns}[t]" if rows > 1 else f"{y} + {columns}[t]"
    layer.line(f"for (int32_t n = 0; n < {rows}; ++n) {{")
    layer.line(f"for (int32_t t = 0; t < {trees}; ++t) {{", 1)
    layer.line(
        f"const int32_t leaf = {walk}({row}, {roots}[t], {features}, {thresholds}, {children});", 2
    )
    layer.line(f"const float *from = {leaves} + (-1 - leaf) * {width};", 2)
    layer.line(f"float *to = {to};", 2)
    layer.loop("w", width, ["to[w] += from[w];"], 2)
    layer.line("}", 1)
    layer.line("}")
