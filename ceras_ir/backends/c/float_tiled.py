"""
Print float convolutions and matrix products in register tiles, like `linear_tiled` for integers.

`float_blocks` has the tiles for vectors of 8 lanes.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.float_blocks import (
    block_calls,
    blocked,
    geometry,
    memory_elements,
    memory_of,
)
from ceras_ir.backends.c.layer import Layer, from_row
from ceras_ir.backends.c.neon_floats import FinishedTile
from ceras_ir.backends.c.register_tiles import (
    EIGHT_LANES,
    FLOAT_LANES,
    FLOAT_TILES,
    FLOATS,
    LANES_PER_VECTOR,
    NEON,
)
from ceras_ir.backends.c.row_parts import RowPart
from ceras_ir.backends.c.small_tiles import add_products
from ceras_ir.backends.c.tile_functions import float_tile
from ceras_ir.backends.c.tile_loops import Strip, halo_of, print_loops
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.values import apply
from ceras_ir.backends.c.vector_functions import apply_to_all, vector_function
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, known_array
from ceras_ir.interpreters.float_text import float_literal


def float_weights(layer: Layer, op: LinearOperation, nest: Nest, weights: ConstantOp) -> str:
    """
    Add the weights to the constants of the layer as [panels, k, outputs of a panel], padded with
    zeros to complete panels. Return their C name.
    """
    panels, runs, steps, width, _ = shape = nest.panel_shape(1)

    def packed() -> Array:
        flat = np.asarray(weights.array(), np.float32).reshape(nest.all_outputs, -1)
        padded = nest.split(flat).reshape(panels, width, runs * steps)
        return np.ascontiguousarray(padded.transpose(0, 2, 1))

    return layer.constant("weights", "float", prod(shape), 4, packed)


def float_bias(layer: Layer, op: LinearOperation, nest: Nest) -> str:
    """
    Add the bias to the constants of the layer, padded with zeros to complete panels. Return its C
    name; without bias it is 0.
    """

    def padded() -> Array:
        result = np.zeros(nest.padded_outputs, np.float32)
        if op.bias is not None:
            result[: nest.all_outputs] = known_array(op.bias)
        return result

    return layer.constant("bias", "float", nest.padded_outputs, 4, padded)


def clamp_of(op: LinearOperation) -> tuple[float, float] | None:
    """
    Return the bounds of an activation that only clips. An upper bound of -0, which 64-bit Arm would
    not return for 0, is computed after the layer.
    """
    bounds = op.activation.clip_range if op.activation is not None else None
    return None if bounds is None or str(bounds[1]) == "-0.0" else bounds


def print_float_tiles(
    layer: Layer,
    op: LinearOperation,
    nest: Nest,
    names: tuple[str, str, str, str, str],
    declarations: Sequence[str] = (),
) -> None:
    """
    Print the statements of the layer that use vector instructions. `names` are the C names of
    input, result, weights, bias and residual ("" without a residual). Each thread executes
    `declarations` first.
    """
    layer.kernels.use("finish_f32")
    parts = RowPart.of(nest)
    for part in parts:
        depth = int(len(parts) > 1)
        if depth:
            layer.line("{")
        _print_part(layer, op, part, names, depth, declarations)
        if depth:
            layer.line("}")
    activate(layer, op, nest, names[1])


def _print_part(
    layer: Layer,
    op: LinearOperation,
    part: RowPart,
    names: tuple[str, str, str, str, str],
    depth: int,
    declarations: Sequence[str],
) -> None:
    with layer.variants(EIGHT_LANES) as otherwise:
        _print_blocks(layer, op, part, names, depth, declarations)
        otherwise()
        with layer.variants(NEON) as others:
            nest = part.nest.with_arm_tiles()
            walk = replace(part.walk, tile=nest.tile, fetches_next=False, is_long=True)
            arm = replace(part, nest=nest, walk=walk)
            _print_tiles(layer, op, arm, names, depth, declarations)
            others()
            _print_tiles(layer, op, part, names, depth, declarations)


def _print_blocks(
    layer: Layer,
    op: LinearOperation,
    part: RowPart,
    names: tuple[str, str, str, str, str],
    depth: int,
    declarations: Sequence[str],
) -> None:
    """Print a part of a layer for vectors of 8 lanes."""
    x, y, w, b, residual = names
    nest = blocked(part.nest, max(layer.options.workspace, layer.options.winograd // 2))
    low, high = map(float_literal, clamp_of(op) or (-inf, inf))
    walk = replace(part.walk, tile=nest.tile)
    layer.line(f"const struct rows_f32 windows = {geometry(nest, walk, low, high)};", depth)
    memory = memory_of(layer, memory_elements(nest.tile.positions))
    strip, source = _source(layer, part, nest, x)
    first = nest.first_output("b")
    more = f"{part.result(residual)} + at" if residual else ""
    places = source, part.panel(w), f"{b} + {first}", f"{part.result(y)} + at", more
    body = [
        f"const int32_t at = {nest.output_at()} + {first};",
        *block_calls(layer, nest, places),
    ]
    print_loops(layer, nest, strip, body, depth=depth, declarations=(*declarations, *memory))


def _print_tiles(
    layer: Layer,
    op: LinearOperation,
    part: RowPart,
    names: tuple[str, str, str, str, str],
    depth: int,
    declarations: Sequence[str],
) -> None:
    x, y, w, b, residual = names
    nest, walk = part.nest, part.walk
    strip, source = _source(layer, part, nest, x)
    bounds = clamp_of(op)
    stores, has_clamp = nest.stores(bool(residual)), bounds is not None
    if walk.is_long:
        for_arm = FinishedTile(walk, stores, has_clamp, nest.outputs % LANES_PER_VECTOR)
        for_arm.add(layer.kernels)
        text = float_tile(walk, stores, has_clamp=has_clamp, for_arm=for_arm)
        tile = layer.kernels.add(*text, NEON)
    else:
        add_products(layer.kernels, walk, FLOATS)
        text = float_tile(walk, stores, has_clamp=has_clamp)
        tile = layer.kernels.add(*text, f"{FLOAT_TILES} && !{NEON}")
    first = nest.first_output("b")
    arguments = f"{source}, {part.panel(w)}, {b} + {first}, {part.result(y)} + at"
    if residual:
        arguments += f", {part.result(residual)} + at"
    if bounds is not None:
        arguments += f", {float_literal(bounds[0])}, {float_literal(bounds[1])}"
    if stores.is_masked:
        arguments += f", {nest.outputs} - b"
    if walk.fetches_next:
        arguments += f", {nest.next_part(w)}"
    body = [f"const int32_t at = {nest.output_at()} + {first};", f"{tile}({arguments});"]
    print_loops(layer, nest, strip, body, depth=depth, declarations=declarations)


def _source(layer: Layer, part: RowPart, nest: Nest, x: str) -> tuple[Strip | None, str]:
    """
    Return the copy of input rows, if the loops `nest` need it, and the C expression of the first
    window of a tile.
    """
    if nest.in_place:
        return None, nest.place_of(part.input(x))
    copy = halo_of(float_halo(layer), x, "0.0f")
    strip = Strip.of(layer, ("float", "strip"), nest.strip_elements, 4, copy)
    return strip, f"strip + {nest.input_at()}"


def float_halo(layer: Layer) -> str:
    """Return the name of the C function that copies input rows with border."""
    return layer.kernels.use("halo", NAME="f32", TO="float", IN="float", SHIFT="", WHAT="as it is")


def activate(layer: Layer, op: LinearOperation, nest: Nest, y: str) -> None:
    """
    Print the C loop that applies the activation to all results in `y`. Print nothing if there is
    none, or if it is a clamp, which the tiles apply.
    """
    if op.activation is None or clamp_of(op) is not None:
        return
    size = nest.images * nest.rows * nest.columns * nest.all_outputs
    if (function := vector_function(layer, op.activation)) is not None:
        apply_to_all(layer, function, y, y, size)
        return
    result = apply(layer.kernels, op.activation, "v")
    lines = ["const float v = y[i];", f"y[i] = {result};"]
    if op.activation.values or op.activation.affine is not None:
        layer.each(size, lines)
        return
    # A function per activation, so that compilers can inline and vectorize it.
    name = f"all_{op.activation.data.value}"
    text = (
        f"MODEL_TILE void {name}(float *y, int32_t size)\n{{\n"
        "  for (int32_t i = 0; i < size; ++i) {\n"
        f"    {lines[0]}\n    {lines[1]}\n  }}\n}}\n"
    )
    function = layer.kernels.add(name, text, FLOAT_LANES)
    layer.rows(
        size,
        size,
        lambda first, count: f"{function}({from_row(y, first, 1)}, {count});",
        LANES_PER_VECTOR,
    )
