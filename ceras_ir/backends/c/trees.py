"""Decision trees: a walk through the tables of their nodes, and sums of the leaves it ends at."""

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import TreeEnsembleOp, shape_of


@prints(TreeEnsembleOp)
def tree_ensemble(layer: Layer, op: TreeEnsembleOp) -> None:
    """`graph.tree_ensemble`."""
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
