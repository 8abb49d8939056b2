"""
Matrix products whose second factor is computed: it is packed into the workspace as constant weights
are at compile time, and then the same kernels multiply.
"""

from math import prod

from ceras_ir.backends.c.epilogue import residual_factor, residual_factors
from ceras_ir.backends.c.float_tiled import print_float_tiles
from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_float import epilogue_lines, tiled_nest
from ceras_ir.backends.c.operands import quantized
from ceras_ir.backends.c.register_tiles import FLOAT_LANES
from ceras_ir.backends.c.requant import Refused, rescaling
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import LIMIT
from ceras_ir.backends.c.types import centred_bound, less, value_type, zero_point_of
from ceras_ir.dialects.graph import MatmulOp, constant_array, shape_of
from ceras_ir.dialects.quant import UniformType

LEAST_PACKED = 1 << 12
"""Products for which packing pays."""

MAX_ROWS = 8
"""Rows of the first factor that are widened at once."""


def computed_matmul(layer: Layer, op: MatmulOp) -> None:
    """`graph.matmul` on float32 without constant weights."""
    geometry = Geometry.of(op)
    x, w, y = layer.read(op.input, "x"), layer.read(op.weights, "w"), layer.write(op.result)
    bias = layer.read(op.bias, "bias") if op.bias is not None else None
    residual = layer.read(op.residual, "residual") if op.residual is not None else None
    n, k = shape_of(op.weights)
    if not layer.options.vectors or op.macs < LEAST_PACKED:
        _dot_products(layer, op, (x, w, y), bias, residual)
        return
    nest = tiled_nest(layer, op, geometry) if bias is None else None
    if nest is None:
        # In the order of k, every step rounded: each output is a sum of its own in a vector.
        packed = layer.scratch("float", "columns", n * k, 4)
        pack = layer.kernels.use("pack_panels")
        multiply = layer.kernels.use("multiply_rows")
        layer.line(f"{pack}({packed}, {w}, {n}, {k}, {n});")
        size = prod(shape_of(op.result))
        layer.line(f"for (int32_t i = 0; i < {size}; ++i) {y}[i] = 0.0f;")
        rows = geometry.positions
        layer.line(f"{multiply}({rows}, {n}, {k}, {x}, {k}, {packed}, {n}, {y}, {n});")
        layer.block(epilogue_lines(layer, op, y, residual, "0", str(size), bias))
        return
    with layer.variants(FLOAT_LANES) as otherwise:
        width = nest.tile.width
        packed = layer.scratch("float", "panels", nest.padded_outputs * k, 4)
        zeros = layer.scratch("float", "zeros", nest.padded_outputs, 4)
        pack = layer.kernels.use("pack_panels")
        layer.line(f"memset({zeros}, 0, {nest.padded_outputs} * sizeof *{zeros});")
        layer.line(f"{pack}({packed}, {w}, {n}, {k}, {width});")
        print_float_tiles(layer, op, nest, (x, y, packed, zeros, residual or ""))
        otherwise()
        _dot_products(layer, op, (x, w, y), bias, residual)


def _dot_products(
    layer: Layer,
    op: MatmulOp,
    names: tuple[str, str, str],
    bias: str | None,
    residual: str | None,
) -> None:
    """Rows times rows, one output after the other."""
    x, w, y = names
    (m, k), (n, _) = shape_of(op.input), shape_of(op.weights)
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


def computed_integer_matmul(layer: Layer, op: MatmulOp) -> None:
    """`graph.matmul` on quantized tensors without constant weights."""
    (m, k), (n, _) = shape_of(op.input), shape_of(op.weights)
    elements = quantized(op.input, "input"), quantized(op.weights, "weights")
    bounds = [centred_bound(element) for element in elements]
    bound = products = k * bounds[0] * bounds[1]
    if products >= LIMIT:
        raise Refused(
            f"a sum of {k} products of two activations can reach {products}, beyond 32 bits; "
            "keep one of them in 8 bits"
        )
    terms: list[str] = []
    if op.bias is not None:
        stored = constant_array(op.bias)
        if stored is None:
            raise Refused("bias must be a constant; fold or freeze what computes it")
        bound += int(abs(stored.astype("int64")).max())
        terms.append(f"{layer.read(op.bias, 'bias')}[o]")
    if op.residual is not None:
        element = quantized(op.residual, "residual")
        bound += centred_bound(element) << max(op.residual_shifts)
        residual = layer.read(op.residual, "residual")
        term = less(f"{residual}[(first + r) * {n} + o]", zero_point_of(element))
        factors = residual_factors(layer, op, n)
        terms.append(f"(int64_t)({term}){residual_factor(factors, op, 'o')}")
    assert op.requant is not None
    rescale = rescaling(op.requant, bound, value_type(op.result))
    if op.residual is not None and rescale.type == "int32_t":
        terms[-1] = terms[-1].removeprefix("(int64_t)")
    x, w, y = layer.read(op.input, "x"), layer.read(op.weights, "w"), layer.write(op.result)
    row = "int16_t" if max(bounds) < 1 << 15 else "int32_t"
    item = 2 if row == "int16_t" else 4
    short = "i16" if row == "int16_t" else "i32"
    rows = min(m, MAX_ROWS)
    layer.scratch(row, "weights", n * k, item)
    layer.scratch(row, "rows", rows * k, item)
    layer.scratch("int32_t", "sums", rows * n, 4)
    holes = {"NAME": f"{short}_{row}", "ROW": row, "WEIGHT": row, "NEON": "", "END": ""}
    dot = layer.kernels.use("dot_rows", **holes)
    fill_w, fill_x = (
        _centre(layer, value_type(value), element, row)
        for value, element in zip((op.weights, op.input), elements[::-1], strict=True)
    )
    layer.line(f"{fill_w[0]}(weights, {w}, {n * k}, {fill_w[1]});")
    layer.line(f"for (int32_t first = 0; first < {m}; first += {rows}) {{")
    rest = f"{m} - first"
    count = f"{rest} < {rows} ? {rest} : {rows}" if m % rows else str(rows)
    layer.line(f"const int32_t count = {count};", 1)
    layer.line(f"{fill_x[0]}(rows, {x} + first * {k}, count * {k}, {fill_x[1]});", 1)
    layer.line(f"{dot}(count, {n}, {k}, rows, weights, sums);", 1)
    layer.line("for (int32_t r = 0; r < count; ++r) {", 1)
    body = rescale.lines([f"sums[r * {n} + o]", *terms], f"{y}[(first + r) * {n} + o]")
    layer.loop("o", n, body, 2)
    layer.line("}", 1)
    layer.line("}")


def _centre(layer: Layer, stored: str, element: UniformType, row: str) -> tuple[str, int]:
    """The function that takes a zero point off every element, and that zero point."""
    name = f"{stored}_to_{row}"
    return layer.kernels.use("centre", NAME=name, IN=stored, ROW=row), zero_point_of(element)
