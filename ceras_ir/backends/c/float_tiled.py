"""Float convolution and matrix product in register tiles, like `linear_tiled` for integers."""

from math import prod

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.functions import apply
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import FLOAT_LANES
from ceras_ir.backends.c.small_tiles import add_products
from ceras_ir.backends.c.tile_functions import float_tile
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.walk import FLOATS
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, known_array
from ceras_ir.interpreters.float_text import float_literal


def float_weights(layer: Layer, op: LinearOperation, nest: Nest, weights: ConstantOp) -> str:
    """
    Weights as [panels, k, outputs of a panel]; the outputs of the last are filled up with zeros.
    Tiles and portable loops read the same.
    """
    panels, runs, steps, width, _ = shape = nest.panel_shape(1)

    def packed() -> Array:
        flat = np.asarray(weights.array(), np.float32).reshape(nest.all_outputs, -1)
        padded = nest.split(flat).reshape(panels, width, runs * steps)
        return np.ascontiguousarray(padded.transpose(0, 2, 1))

    return layer.constant("weights", "float", prod(shape), 4, packed)


def float_bias(layer: Layer, op: LinearOperation, nest: Nest) -> str:
    """The bias of whole panels."""

    def padded() -> Array:
        result = np.zeros(nest.padded_outputs, np.float32)
        if op.bias is not None:
            result[: nest.all_outputs] = known_array(op.bias)
        return result

    return layer.constant("bias", "float", nest.padded_outputs, 4, padded)


def print_float_tiles(
    layer: Layer, op: LinearOperation, nest: Nest, names: tuple[str, str, str, str, str]
) -> None:
    """The body of the layer's function where there are vectors."""
    x, y, w, b, residual = names
    add_products(layer.kernels, nest.walk(1), FLOATS)
    layer.kernels.use("finish_f32")
    fill: list[str] = []
    if nest.in_place:
        source = nest.place_of(x)
    else:
        halo = layer.kernels.use(
            "halo", NAME="f32", TO="float", IN="float", SHIFT="", WHAT="as it is"
        )
        layer.scratch("float", "strip", nest.strip_elements, 4)
        source = f"strip + {nest.input_at()}"
        fill.append(
            f"{halo}(strip, {nest.image_at(x)}, {nest.filled_rows}, {nest.first_row}, {nest.left}, "
            f"{nest.padded_width}, {nest.height}, {nest.width}, {nest.channels}, 0.0f);"
        )
    bounds = op.activation.clip_range if op.activation is not None else None
    stores = nest.stores(bool(residual))
    text = float_tile(nest.walk(1), stores, has_clamp=bounds is not None)
    tile = layer.kernels.add(*text, FLOAT_LANES)
    first = nest.first_output("b")
    arguments = f"{source}, {nest.panel_at(w, 1)}, {b} + {first}, {y} + at"
    if residual:
        arguments += f", {residual} + at"
    if bounds is not None:
        arguments += f", {float_literal(bounds[0])}, {float_literal(bounds[1])}"
    if stores.is_masked:
        arguments += f", {nest.outputs} - b"
    nest.print(
        layer,
        fill,
        lambda: [f"const int32_t at = {nest.output_at()} + {first};", f"{tile}({arguments});"],
    )
    activate(layer, op, nest, y)


def activate(layer: Layer, op: LinearOperation, nest: Nest, y: str) -> None:
    """The activation of all results where it is more than bounds."""
    if op.activation is None or op.activation.clip_range is not None:
        return
    size = nest.images * nest.rows * nest.columns * nest.all_outputs
    result = apply(layer.kernels, op.activation, "v")
    lines = ["const float v = y[i];", f"y[i] = {result};"]
    if op.activation.values or op.activation.affine is not None:
        layer.loop("i", size, lines)
        return
    # One function for all layers, into which compilers inline what they make vectors of.
    name = f"all_{op.activation.kind.value}"
    text = (
        f"MODEL_TILE void {name}(float *y, int32_t size)\n{{\n"
        "  for (int32_t i = 0; i < size; ++i) {\n"
        f"    {lines[0]}\n    {lines[1]}\n  }}\n}}\n"
    )
    layer.line(f"{layer.kernels.add(name, text, FLOAT_LANES)}({y}, {size});")
