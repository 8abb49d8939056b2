"""Float matrix products whose second factor is computed: plain dot products of rows."""

from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.dialects.graph import MatmulOp, shape_of


def computed_matmul(layer: Layer, op: MatmulOp) -> None:
    """`graph.matmul` on float32 without constant weights."""
    (m, k), (n, _) = shape_of(op.input), shape_of(op.weights)
    x, w, y = layer.read(op.input, "x"), layer.read(op.weights, "w"), layer.write(op.result)
    bias = layer.read(op.bias, "bias") if op.bias is not None else None
    residual = layer.read(op.residual, "residual") if op.residual is not None else None
    layer.line(f"for (int32_t i = 0; i < {m}; ++i) {{")
    terms = f" + {bias}[j]" if bias is not None else ""
    terms += f" + {residual}[i * {n} + j]" if residual is not None else ""
    body = [
        "float sum = 0.0f;",
        f"for (int32_t k = 0; k < {k}; ++k) sum += {x}[i * {k} + k] * {w}[j * {k} + k];",
        f"const float v = sum{terms};",
        f"{y}[i * {n} + j] = {apply(layer.kernels, op.activation, 'v') if op.activation else 'v'};",
    ]
    layer.loop("j", n, body, 1)
    layer.line("}")
