"""
Print quantized convolutions and matrix products in register tiles, as an implicit matrix product.

Input rows are copied with border to a strip in the workspace, or loaded in place. An instruction
multiplies four bytes of a window, or two elements of 16 bits, by weights. The processor multiplies
unsigned by signed bytes, so 128 is added to signed bytes of the input. The bias corrects this, as
it does for zero points and rounding.
"""

from dataclasses import replace
from functools import partial

from ceras_ir.backends.c.amx_functions import add_amx_tile
from ceras_ir.backends.c.amx_tiles import AMX, AmxTile, amx_tile
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import stored_bits
from ceras_ir.backends.c.packed_words import VECTOR_WORDS, Format
from ceras_ir.backends.c.quads import LANES, order_size
from ceras_ir.backends.c.register_tiles import (
    BYTE_LANES,
    LANES_PER_VECTOR,
    MOVED_BYTES,
    NEON,
    TILES,
    WORDS,
    WORDS_BY_FOUR,
    Lanes,
    Stores,
    Walk,
    lanes_of,
)
from ceras_ir.backends.c.small_tiles import add_products
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.tile_functions import (
    shifting_tile,
    sums_tile,
    use_narrow,
)
from ceras_ir.backends.c.tile_loops import (
    Strip,
    copied_rows,
    from_strip_row,
    halo_of,
    is_shared,
    print_loops,
)
from ceras_ir.backends.c.tile_nest import SLACK, Nest
from ceras_ir.backends.c.tile_panels import (
    PANEL,
    MakePanels,
    Panels,
    adds_offset_on_load,
    constant_panels,
    unpacks_in_registers,
)
from ceras_ir.backends.c.values import value_type, zero_point_of
from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.dialects.quant import BYTE_BITS

MAX_IN_PLACE_OUTPUTS, MIN_IN_PLACE_PRODUCTS = 128, 64
"""
Bounds of outputs and of products for which 128 is added as bytes are loaded. Other layers copy the
input.
"""

STRIP_SIGN = f"({NEON} ? 128 : 0)"
"""C expression of the bits that differ between an unsigned byte and the byte of a strip."""

MAX_PADDING = 1.25
"""The maximum ratio of padded outputs to outputs for weights that vectors unpack in registers."""

MIN_POSITIONS_OF_SUMS = 16
"""The minimum number of positions for tiles with 32-bit results, which a loop stores."""


def has_vector_products(layer: Layer, op: LinearOperation, sums: Sums) -> bool:
    """
    Return whether vector instructions compute the layer exactly: int8 weights, inputs of 8 or 16
    bits, results of up to 32 bits, and sums that fit 32 bits.
    """
    return (
        layer.options.vectors
        and value_type(op.input) in ("int8_t", "uint8_t", "int16_t")
        and value_type(op.result) in ("int8_t", "uint8_t", "int16_t", "int32_t")
        and sums.weight_type == "int8_t"
        and sums.raw_bound < LIMIT
    )


def tiled_nest(layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums) -> Nest | None:
    """
    Return the loops over register tiles for a layer, or `None` if only loops without vectors
    support it, such as for depthwise convolutions.
    """
    if geometry.is_depthwise or not has_vector_products(layer, op, sums):
        return None
    if value_type(op.result) == "int32_t" and geometry.positions < MIN_POSITIONS_OF_SUMS:
        return None
    stored = value_type(op.input)
    is_worth = (
        LANES_PER_VECTOR < geometry.n <= MAX_IN_PLACE_OUTPUTS
        and geometry.k >= MIN_IN_PLACE_PRODUCTS
    )
    item = 2 if stored == "int16_t" else 1
    options = layer.options
    nest_of = partial(
        Nest.of, op, geometry, item, options.workspace, rank=options.tile_rank,
        common=options.common_tiles,
    )  # fmt: skip
    nest = nest_of(in_place=True)
    if nest.taps % lanes_of(stored).step or not (is_worth or stored != "int8_t"):
        nest = nest_of()
    return _for_single_row(nest, sums)


def _for_single_row(nest: Nest, sums: Sums) -> Nest:
    """
    Return loops with panels that vectors can unpack in registers, if a tile has a single position
    and the weights are packed: the fewest vectors of outputs, then the fewest panels. If complete
    units of packed words would pad the outputs by more than `MAX_PADDING`, panels have a single
    vector of outputs, because a panel is expanded to the workspace.
    """
    bits = BYTE_BITS if sums.weights is None else stored_bits(sums)
    if bits == BYTE_BITS or nest.tile.positions > 1:
        return nest
    unit = Format(bits, VECTOR_WORDS).words
    vectors = -(-nest.outputs // LANES_PER_VECTOR)
    choices = range(unit, max(nest.tile.blocks, unit) + 1, unit)
    blocks = min(choices, key=lambda count: (-(-vectors // count) * count, -count))
    if -(-vectors // blocks) * blocks > MAX_PADDING * vectors:
        blocks = 1
    return replace(nest, tile=replace(nest.tile, blocks=blocks))


def _has_full_weights(sums: Sums) -> bool:
    return sums.weights is None or bool((sums.centred() == -128).any())


def print_tiles(of: IntegerLayer, nest: Nest, make: MakePanels = constant_panels) -> Panels:
    """
    Print the statements of the layer with vector instructions. `make` adds the weights in panels
    and the bias to the layer, and they are returned.
    """
    layer, op, sums, x = of.layer, of.op, of.sums, of.x
    layer.kernels.use("vectors_i8")
    stored = value_type(op.input)
    offset = 128 if stored == "int8_t" else 0
    epilogue = Epilogue.of(op, sums, of.rescale, even=True)
    lanes = lanes_of(stored)
    width = nest.tile.width
    is_late = adds_offset_on_load(of, nest)
    amx, is_wide = None, lanes is WORDS
    # The tiles of AMX and vectors share weights in words of four elements.
    has_shared_weights = not is_wide or not (
        sums.weights is None or (nest.in_place and nest.taps % 4)
    )
    if epilogue is not None and has_shared_weights:
        stored_bytes = (epilogue.bits + (epilogue.residual_bits if of.residual else 0)) // 8
        amx = amx_tile(nest, layer.options.workspace, stored_bytes, is_wide=is_wide)
        layer.amx_cycles = None if amx is None else amx.cycles
    panels = make(of, nest, epilogue, offset, amx)
    w, b = panels.bytes, panels.bias
    strip: Strip | None = None
    if nest.in_place:
        source = nest.place_of(x)
    else:
        size = nest.strip_elements + SLACK
        if amx is not None and not amx.nest.in_place:
            size = max(size, amx.plane if is_wide else amx.strip_elements)
        border = str(zero_point_of(sums.x) + offset)
        if lanes is BYTE_LANES:
            border = f"{border} ^ {STRIP_SIGN}"
        copy = halo_of(_halo(layer, stored, lanes.element), x, border)
        strip = Strip.of(layer, (lanes.element, "strip"), size, 4 // lanes.step, copy)
        source = f"strip + {nest.input_at()}"
    if is_late:
        lanes = MOVED_BYTES
    long = nest.with_long_tiles() if lanes.step == BYTE_LANES.step else nest
    walk = replace(
        nest.walk(lanes.step), ends_in_half=nest.ends_in_half, is_ordered=bool(panels.order)
    )
    ordered = ""
    if panels.order:
        each = order_size(walk)
        group = f" + (g * {nest.group_width // LANES * each})" if nest.groups > 1 else ""
        at = f"{panels.order}{group} + (b / {LANES} * {each})"
        ordered = f", MODEL_ORDER({at})"
    is_short = nest.taps % lanes.step == 1 < walk.steps and 1 < walk.runs <= lanes.step
    if lanes is BYTE_LANES and is_short and not nest.has_gaps:
        # For half a vector of outputs, the combination of four bytes is slower than separate
        # products.
        walk = replace(walk, joins_ends=nest.outputs > LANES_PER_VECTOR // 2)
    if walk.ends_in_half:
        layer.kernels.use("half_vectors")
    if lanes is BYTE_LANES and nest.in_place:
        lanes = replace(lanes, suffix="_in_place", is_unsigned=True)
    if not lanes.has_halves and lanes.step == BYTE_LANES.step and _has_full_weights(sums):
        lanes = replace(lanes, suffix=f"{lanes.suffix}_full", is_full=True)
    declarations = panels.reserve(layer, each_thread=is_shared(layer))
    each_panel = panels.expand_panel(layer, nest)
    unpacking = lanes
    if each_panel and unpacks_in_registers(nest, lanes, panels.packed[0].format):
        layer.kernels.use("packed_rows")
        unpacking = replace(lanes, packed=panels.packed[0].format)
        each_panel = panels.expand_for_others(layer, nest)

    def panel_at(step: int) -> str:
        return PANEL if each_panel else nest.panel_at(w, step)

    print_nest = partial(print_loops, declarations=declarations, each_panel=each_panel)
    add_products(layer.kernels, walk, lanes)
    long_walk = replace(walk, tile=long.tile, is_long=True, is_ordered=False)
    if long != nest:
        add_products(layer.kernels, long_walk, lanes)
    first = nest.first_output("b")

    def use_output(
        e: Epilogue, loops: Nest, at: str = "at", first: str = first, left: str = ""
    ) -> tuple[Stores, str]:
        """
        Return the output stage of a tile of `loops`, and the arguments of the C function of the
        tile after the weights. `at`, `first` and `left` are C expressions: the index of the first
        result, the number of the first output, and the number of outputs from it on.
        """
        factors = [1 << shift for shift in op.residual_shifts] if of.factors else []
        stores = loops.stores(bool(of.residual)).with_epilogue(e, factors)
        use_narrow(layer.kernels, stores)
        if stores.packed:
            layer.kernels.use("packed_stores")
        count = nest.padded_outputs
        multipliers = of.multiplier_array(count, TILES) if e.scale_bits else ""
        shifts = of.shift_array(e, count, TILES) if e.shifts else ""
        part = f", {left or f'{nest.outputs} - b'}" if stores.is_masked else ""
        return stores, of.output_arguments(e, at, first, multipliers, shifts) + part

    def shifted(
        e: Epilogue, walk: Walk = walk, lanes: Lanes = unpacking, loops: Nest = nest
    ) -> list[str]:
        stores, arguments = use_output(e, loops)
        condition = AMX if lanes.has_halves else NEON if walk.is_long else TILES
        tile = layer.kernels.add(*shifting_tile(walk, stores, lanes), condition)
        return [
            f"const int32_t at = {nest.output_at()} + {first};",
            f"{tile}({source}, {panel_at(lanes.step)}, {b} + {first}, {arguments}"
            f"{ordered if walk.is_ordered else ''});",
        ]

    def in_amx(e: Epilogue, amx: AmxTile, strip: Strip | None) -> None:
        stores, arguments = use_output(e, amx.nest, "kept", "kept_first", "kept_left")
        is_signed = amx.multiplies_signed(stored)
        tile = add_amx_tile(layer.kernels, amx, stores, is_signed=is_signed)
        start = f"{'planes' if is_wide else 'strip'} + {amx.nest.input_at()}"
        if amx.nest.in_place:
            start = amx.nest.place_of(x)
        fetched = f", {amx.next_at(w)}" if amx.fetched_lines else ""
        finished = f"{tile.finish}(sums, {panels.amx_bias} + kept_first, {arguments});"
        finished = f"if (kept >= 0) {{ {finished} }}"
        is_part = stores.is_masked
        body = [
            f"const int32_t at = {amx.nest.output_at()} + {first};",
            f"{tile.products}({start}, {amx.panel_at(w)}{fetched});",
            *([f"{tile.fetch}({of.residual} + at);"] if tile.fetch else []),
            finished,
            f"{tile.keep}(sums);",
            "kept = at;",
            f"kept_first = {first};",
            *([f"kept_left = {nest.outputs} - b;"] if is_part else []),
        ]
        begin = [
            f"int32_t sums[{amx.sums}] __attribute__((aligned(64)));",
            "int32_t kept = -1;",
            "int32_t kept_first = 0;",
            *(["int32_t kept_left = 0;"] if is_part else []),
            amx.configuration,
        ]
        each_thread = begin, [finished, "_tile_release();"]
        print_loops(layer, amx.nest, strip, body, each_thread, 1)

    def rescaled() -> list[str]:
        tile = layer.kernels.add(*sums_tile(walk, unpacking), TILES)
        t = nest.tile
        end = f"b + {width}"
        if nest.outputs % width:
            end = f"({end} < {nest.outputs} ? {end} : {nest.outputs})"
        row = "p" if t.columns == 1 else "p % " + str(t.columns)
        position = f"p / {t.columns} * {nest.columns} + {row}" if t.rows > 1 else "p"
        if t.columns == nest.columns:
            position = "p"
        group = f" + {nest.first_output()}" if nest.groups > 1 else ""
        lines = of.epilogue(f"sums[p * {width} + o - b]")
        return [
            f"int32_t sums[{t.positions * t.width}];",
            f"{tile}({source}, {panel_at(lanes.step)}, {b} + {first}, sums{ordered});",
            f"for (int32_t p = 0; p < {t.positions}; ++p) {{",
            f"  const int32_t at = {nest.output_at()} + ({position}) * {nest.all_outputs}{group};",
            f"  for (int32_t o = b; o < {end}; ++o) {{",
            *(f"    {text}" for text in lines),
            "  }",
            "}",
        ]

    def print_shifted(e: Epilogue, depth: int = 0) -> None:
        if long == nest:
            print_nest(layer, nest, strip, shifted(e), depth=depth)
            return
        with layer.variants(NEON) as otherwise:
            print_nest(layer, long, strip, shifted(e, long_walk, lanes, loops=long), depth=depth)
            otherwise()
            print_nest(layer, nest, strip, shifted(e), depth=depth)

    if not (amx is not None and is_wide):
        panels.expand_whole(layer)
    if epilogue is None:
        print_nest(layer, nest, strip, rescaled())
    elif amx is None:
        print_shifted(epilogue)
    elif is_wide:
        by_four = nest.walk(WORDS_BY_FOUR.step), WORDS_BY_FOUR
        with layer.variants(AMX) as otherwise:
            split = partial(_split, layer, amx, nest, x, zero_point_of(sums.x))
            if strip is None:
                planes = Strip.of(layer, ("uint8_t", "planes"), 2 * amx.plane, 1, split)
            else:
                alias = "uint8_t *planes = (uint8_t *)(void *)strip;"
                planes = Strip((*strip.declaration, alias), split)
            panels.expand_whole(layer, for_amx=True)
            layer.line("if (amx_is_ready()) {")
            in_amx(epilogue, amx, planes)
            layer.line("} else {")
            print_nest(layer, nest, strip, shifted(epilogue, *by_four), depth=1)
            layer.line("}")
            otherwise()
            panels.expand_whole(layer)
            print_nest(layer, nest, strip, shifted(epilogue))
    else:
        copied = None if amx.nest.in_place else strip
        is_separate = amx.nest.is_product and not (amx.nest.in_place or nest.is_product)
        if is_separate and strip is None:
            layer.line("(void)workspace;")
        layer.lines.append(f"#if {AMX}")
        if is_separate:
            pixels = partial(_copied_pixels, layer, nest, x, stored)
            if strip is None:
                copied = Strip.of(layer, ("uint8_t", "strip"), amx.strip_elements, 1, pixels)
            else:
                copied = replace(strip, copy=pixels)
        layer.line("if (amx_is_ready()) {")
        in_amx(epilogue, amx, copied)
        layer.line("} else")
        layer.lines.append("#endif")
        layer.line("{")
        print_shifted(epilogue, 1)
        layer.line("}")
    return panels


def _halo(layer: Layer, stored: str, element: str) -> str:
    """
    Return the name of the C function that copies input rows of C type `stored` to rows of `element`
    with border.
    """
    return layer.kernels.use("halo", TO=element, **_copied(stored))


def _copied(stored: str) -> dict[str, str]:
    """Return the parameters of C functions that copy inputs of C type `stored`."""
    is_bytes, is_signed = stored != "int16_t", stored == "int8_t"
    return {
        "NAME": stored,
        "IN": stored,
        "SHIFT": f" ^ {'128 ^ ' if is_signed else ''}{STRIP_SIGN}" if is_bytes else "",
        "WHAT": "signed for Arm, else unsigned" if is_bytes else "as it is",
    }


def _copied_pixels(
    layer: Layer, nest: Nest, x: str, stored: str, loops: Nest, count: str, top: str
) -> str:
    """
    Return the C call that copies the pixels of a strided window of a single pixel from `x`, as the
    `copy` of a `Strip`. `nest` has the loops of the layer over the input.
    """
    to, row = from_strip_row(loops, top)
    kernel = layer.kernels.use("pixels", **_copied(stored))
    return f"{kernel}({to}, {nest.image_at(x)}, {_strided(nest, row, count)});"


def _strided(nest: Nest, row: str, count: str) -> str:
    """
    Return the C arguments that select `count` pixels of a strided window from pixel `row`: both,
    the columns, the distances of rows and columns, and the channels.
    """
    height, width = nest.stride[0] * nest.width * nest.channels, nest.stride[1] * nest.channels
    return f"{row}, {count}, {nest.columns}, {height}, {width}, {nest.channels}"


def _split(
    layer: Layer, amx: AmxTile, nest: Nest, x: str, border: int, loops: Nest, count: str, top: str
) -> str:
    """
    Return the C call that copies 16-bit inputs `x` of the current strip to `planes`, as the `copy`
    of a `Strip`. `nest` has the loops of the layer over the input, of which `amx` may read only
    single pixels.
    """
    to, row = from_strip_row(loops, top, "planes")
    image, place = nest.image_at(x), f"{to}, {amx.plane}"
    if not loops.is_product:
        kernel = layer.kernels.use("split_halo")
        return f"{kernel}({place}, {image}, {copied_rows(loops, row, count)}, {border});"
    if nest.is_product:
        kernel = layer.kernels.use("split_words")
        return f"{kernel}({place}, {image} + {row} * {nest.channels}, {count} * {nest.channels});"
    kernel = layer.kernels.use("split_pixels")
    return f"{kernel}({place}, {image}, {_strided(nest, row, count)});"
