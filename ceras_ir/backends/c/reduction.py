"""Reductions, and the index of an extreme."""

from math import prod

from ceras_ir.backends.c.arithmetic import combine
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.strides import merge, row_major
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import ArgOp, Binary, Reduce, ReduceOp, TopKOp, shape_of

COMBINED = {
    Reduce.SUM: Binary.ADD,
    Reduce.PRODUCT: Binary.MUL,
    Reduce.MAX: Binary.MAX,
    Reduce.MIN: Binary.MIN,
}


def _index(name: str, strides: list[int]) -> str:
    return " + ".join(f"{name}{d} * {s}" for d, s in enumerate(strides) if s) or "0"


@prints(ReduceOp)
def reduce(layer: Layer, op: ReduceOp) -> None:
    """`graph.reduce`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, strides, axes = shape_of(op.input), row_major(shape_of(op.input)), op.axes.get_values()
    kept = [i for i in range(len(shape)) if i not in axes]
    outer, (outer_steps,) = merge([shape[i] for i in kept], [[strides[i] for i in kept]])
    inner, (steps,) = merge([shape[i] for i in axes], [[strides[i] for i in axes]])
    ctype = value_type(op.result)
    if op.function is Reduce.SUM and ctype == "float" and steps == [1]:
        kernel = layer.kernels.use("sum_last_f32")
        layer.line(f"{kernel}({x}, {y}, {prod(shape_of(op.result))}, {prod(inner)});")
        return
    value = combine(layer.kernels, COMBINED[op.function], ctype, "total", "v")
    if outer_steps and outer_steps[-1] == 1 and outer[-1] > 1:
        _whole_rows(layer, (x, y, ctype, value), (outer, outer_steps), (inner, steps))
        return
    layer.line("int32_t to = 0;")
    with layer.nested("i", outer) as depth:
        layer.line(f"const {ctype} *from = {x} + {_index('i', outer_steps)};", depth)
        layer.line(f"{ctype} total = from[0];", depth)
        layer.line("int first = 1;", depth)
        with layer.nested("k", inner, depth) as below:
            layer.line(f"const {ctype} v = from[{_index('k', steps)}];", below)
            layer.line(f"total = first ? v : {value};", below)
            layer.line("first = 0;", below)
        layer.line(f"{y}[to++] = total;", depth)


def _whole_rows(
    layer: Layer,
    names: tuple[str, str, str, str],
    outer: tuple[list[int], list[int]],
    inner: tuple[list[int], list[int]],
) -> None:
    """Results that lie side by side, together; each takes its elements in the order it would."""
    x, y, ctype, value = names
    (*others, size), (*other_steps, _) = outer
    with layer.nested("i", others) as depth:
        at = _index("i", [size * step for step in row_major(others)])
        layer.line(f"const {ctype} *from = {x} + {_index('i', other_steps)};", depth)
        layer.line(f"{ctype} *to = {y} + {at};", depth)
        layer.loop("j", size, ["to[j] = from[j];"], depth)
        with layer.nested("k", inner[0], depth) as below:
            layer.line(f"const {ctype} *row = from + {_index('k', inner[1])};", below)
            layer.line("if (row == from) continue;", below)
            lines = [f"const {ctype} v = row[j], total = to[j];", f"to[j] = {value};"]
            layer.loop("j", size, lines, below)


@prints(ArgOp)
def arg(layer: Layer, op: ArgOp) -> None:
    """`graph.arg`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    shape, axis = shape_of(op.input), op.axis.value.data
    inner, extent = prod(shape[axis + 1 :]), shape[axis]
    sign = ">" if op.function is Reduce.MAX else "<"
    sign += "=" * op.takes_last
    layer.line(f"for (int32_t i = 0; i < {prod(shape[:axis])}; ++i) {{")
    body = [
        f"const {value_type(op.input)} *from = {x} + i * {extent * inner} + j;",
        "int32_t best = 0;",
        f"for (int32_t k = 1; k < {extent}; ++k)",
        f"  if (from[k * {inner}] {sign} from[best * {inner}]) best = k;",
        f"{y}[i * {inner} + j] = best;",
    ]
    layer.loop("j", inner, body, 1)
    layer.line("}")


@prints(TopKOp)
def top_k(layer: Layer, op: TopKOp) -> None:
    """`graph.top_k`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    (*rows, extent), count = shape_of(op.input), shape_of(op.result)[-1]
    stored, most = value_type(op.input), op.function is Reduce.MAX
    function = layer.kernels.use(
        "top_k",
        NAME=f"{'greatest' if most else 'least'}_{stored}",
        TYPE=stored,
        WHAT="greater" if most else "less",
        SIGN=">" if most else "<",
        NO_SIGN="<=" if most else ">=",
        UNORDERED="  if ((u != u) != (v != v)) return v != v;\n" if stored == "float" else "",
    )
    layer.loop(
        "i", prod(rows), [f"{function}({x} + i * {extent}, {extent}, {y} + i * {count}, {count});"]
    )
