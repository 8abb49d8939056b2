"""
Print the C functions of tiles of AMX: products in tiles, and the output stage in vectors.

Up to four tiles of sums are computed, and stored in an array, to which the output stage of register
tiles is applied for a few positions at a time. That of the previous tiles is between the products
and the store, so that vectors and tiles compute at the same time. Compilers do not know which bytes
the instructions of tiles load, so a barrier precedes them.
"""

from dataclasses import dataclass, replace
from math import gcd

from ceras_ir.backends.c.amx_tiles import AMX, CACHE_LINE_BYTES, AmxTile
from ceras_ir.backends.c.register_tiles import BYTE_LANES, LANES_PER_VECTOR, Stores, Tile
from ceras_ir.backends.c.tile_functions import (
    offset_of,
    output_lines,
    output_name,
    output_parameters,
    sum_name,
)
from ceras_ir.backends.c.values import Kernels

SIGNED, UNSIGNED = "_tile_dpbssd", "_tile_dpbusd"


@dataclass(frozen=True)
class AmxFunctions:
    """The names of the C functions that compute tiles."""

    products: str
    """Adds products for tiles of positions and outputs."""
    keep: str
    """Stores the sums of the tiles to an array."""
    finish: str
    """Applies the output stage to this array, and stores the results."""
    fetch: str
    """Prefetches the residuals of a call, or "" without residual."""


def add_amx_tile(
    kernels: Kernels, amx: AmxTile, stores: Stores, *, is_signed: bool
) -> AmxFunctions:
    """
    Add the C functions that compute tiles of signed or unsigned inputs. If the inputs have two
    planes, the first is unsigned, and the second is signed.
    """
    kernels.use("amx")
    element, dot = ("int8_t", SIGNED) if is_signed else ("uint8_t", UNSIGNED)
    return AmxFunctions(
        kernels.add(*_products_function(amx, element, dot), AMX),
        kernels.add(*_keep_function(amx), AMX),
        kernels.add(*_finish_function(kernels, amx, stores), AMX),
        kernels.add(*_fetch_function(amx, stores), AMX) if stores.has_residual else "",
    )


def _products_function(amx: AmxTile, element: str, dot: str) -> tuple[str, str]:
    walk = amx.walk
    name = f"amx_{amx.high}x{amx.positions}x{amx.blocks}_{walk.runs}x{walk.steps}_{walk.pitch}"
    name += f"_{amx.tile_distance}_{amx.distance}_{amx.block_at(1)}_of_{amx.panel}"
    name += f"_{walk.pieces}x{walk.piece}" if walk.pieces > 1 else ""
    name += f"_{dot.removeprefix('_tile_')}"
    name += f"_by_{amx.plane}" if amx.planes > 1 else ""
    parameters = f"const {element} *x, const int8_t *w"
    if amx.fetched_lines:
        name += f"_fetch{amx.fetched_lines}"
        parameters += ", const int8_t *next"
    lines = [
        f"/* {amx.high} x {amx.blocks} tiles of {amx.positions} positions by 16 outputs. */",
        f"MODEL_TILE void {name}({parameters})",
        "{",
        "  AMX_STORED();",
        *_products(amx, element, dot),
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _keep_function(amx: AmxTile) -> tuple[str, str]:
    inputs, width = amx.planes * amx.high, amx.nest.tile.width
    name = f"amx_keep_{inputs}x{amx.positions}x{amx.blocks}"
    lines = [
        f"/* Stores {inputs} x {amx.blocks} tiles as rows of {width} sums. */",
        f"MODEL_INLINE void {name}(int32_t *sums)",
        "{",
        *(
            f"  _tile_stored({i * amx.blocks + b}, "
            f"{offset_of('sums', i * amx.positions * width + b * LANES_PER_VECTOR)}, {4 * width});"
            for i in range(inputs)
            for b in range(amx.blocks)
        ),
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _finish_function(kernels: Kernels, amx: AmxTile, stores: Stores) -> tuple[str, str]:
    t = amx.nest.tile
    parameters = output_parameters(stores, "int32_t", "sums", has_weights=False)
    store = kernels.add(*_store(amx, stores), AMX)
    rows = t.positions // amx.line
    name = f"amx_finish_{rows}x{amx.line}"
    name += f"_of_{_sums_pitch(amx)}_by_{stores.row}" if rows > 1 else ""
    name += f"_{store}"
    lines = [
        f"/* The output stage of {rows} x {amx.line} positions by {t.width} outputs. */",
        f"MODEL_TILE void {name}({parameters})",
        "{",
        *_store_loops(amx, stores, store),
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _fetch_function(amx: AmxTile, stores: Stores) -> tuple[str, str]:
    rows, size = amx.nest.tile.positions // amx.line, stores.residual_bits // 8
    row, column = size * stores.row, size * _column(amx, stores)
    fetched = size * amx.nest.tile.width
    name = f"amx_residuals_{rows}x{amx.line}x{fetched}_by_{row}_{column}"
    at = f"(r * {row}) + (i * {column})" if rows > 1 else f"i * {column}"
    loops = [f"for (int32_t i = 0; i < {amx.line}; ++i) {{"]
    if rows > 1:
        loops.insert(0, f"for (int32_t r = 0; r < {rows}; ++r) {{")
    lines = [
        f"/* Prefetches {fetched} bytes of residuals of {rows} x {amx.line} positions. */",
        f"MODEL_INLINE void {name}(const int{stores.residual_bits}_t *residual)",
        "{",
        *(f"{'  ' * depth}{loop}" for depth, loop in enumerate(loops, 1)),
        *(
            f"{'  ' * (len(loops) + 1)}AMX_FETCH_NEAR(residual, {offset_of(at, line)});"
            for line in range(0, fetched, CACHE_LINE_BYTES)
        ),
        *(f"{'  ' * depth}}}" for depth in range(len(loops), 0, -1)),
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _column(amx: AmxTile, stores: Stores) -> int:
    """Return the distance in elements between the results of positions of a line."""
    return stores.row if amx.nest.columns == 1 else stores.column


def _sums_pitch(amx: AmxTile) -> int:
    """Return the distance in positions between the lines of sums of a call."""
    return amx.nest.padded_width if amx.is_padded else amx.line


def _products(amx: AmxTile, element: str, dot: str) -> list[str]:
    walk, (words, count, last) = amx.walk, amx.chunks
    row = amx.panel * BYTE_LANES.step
    sums = amx.planes * amx.high * amx.blocks
    lines = [f"  _tile_zero({i});" for i in range(sums)]
    depth, start = "  ", "x"
    if walk.runs > 1:
        lines.append(f"  for (int32_t run = 0; run < {walk.runs}; ++run, x += {walk.pitch}) {{")
        depth += "  "
    if walk.pieces > 1:
        each = f"int32_t piece = 0; piece < {walk.pieces}; ++piece, part += {walk.piece}"
        lines += [f"{depth}const {element} *part = x;", f"{depth}for ({each}) {{"]
        depth, start = depth + "  ", "part"
    lines.append(f"{depth}const {element} *at = {start};")
    step = f"at += {words * BYTE_LANES.step}, w += {words * row}"
    lines += [
        f"{depth}MODEL_ROLLED",
        f"{depth}for (int32_t i = 0; i < {count}; ++i, {step}) {{",
        *(
            f"{depth}  AMX_FETCH(next, {CACHE_LINE_BYTES * line});"
            for line in range(amx.fetched_lines)
        ),
        *(
            [f"{depth}  next += {CACHE_LINE_BYTES * amx.fetched_lines};"]
            if amx.fetched_lines
            else []
        ),
        *(f"{depth}  {text}" for text in _chunk(amx, dot, row, is_last=False)),
        f"{depth}}}",
    ]
    if last:
        lines += (depth + text for text in _chunk(amx, dot, row, is_last=True))
        lines.append(f"{depth}w += {last * row};")
    while len(depth) > 2:
        depth = depth[2:]
        lines.append(f"{depth}}}")
    return lines


def _chunk(amx: AmxTile, dot: str, row: int, *, is_last: bool) -> list[str]:
    """
    Return the C statements that add a tile of products to each sum. Loads alternate between two
    tiles for inputs and two for weights, so that they do not wait for products. If rows end with
    shorter tiles, which `is_last` selects, there is one of each.
    """
    pairs = (int(is_last),) if amx.chunks[2] else (0, 1)
    lines: list[str] = []
    held: dict[int, int] = {}

    def load(kind: int, index: int, at: str, distance: int) -> int:
        tile = kind + 2 * pairs[index % len(pairs)]
        if held.get(tile) != index:
            held[tile] = index
            lines.append(f"_tile_loadd({tile}, {at}, {distance});")
        return tile

    for i in range(amx.planes * amx.high):
        order = range(amx.blocks)
        plane, tile = divmod(i, amx.high)
        place = plane * amx.plane + tile * amx.tile_distance
        for b in order if i % 2 == 0 else reversed(order):
            w = load(5, b, offset_of("w", amx.block_at(b)), row)
            x = load(4, i, offset_of("at", place), amx.distance)
            lines.append(f"{SIGNED if plane else dot}({i * amx.blocks + b}, {x}, {w});")
    return lines


def _group(amx: AmxTile, stores: Stores) -> int:
    """Return the number of positions whose sums are packed and stored together."""
    vectors = stores.packed or 1
    return min(vectors // gcd(vectors, amx.blocks), amx.line)


def _store(amx: AmxTile, stores: Stores) -> tuple[str, str]:
    """
    Return the name and the text of a C function that applies the output stage to the sums of a few
    positions and stores the results.
    """
    group, blocks = _group(amx, stores), amx.blocks
    tile = Tile(1, group, blocks)
    if amx.nest.columns == 1:
        stores = replace(stores, column=stores.row)
    name = f"store_{group}x{blocks}_to_{stores.column}{output_name(stores)}"
    high = amx.computed * amx.nest.tile.width if amx.planes > 1 else 0
    if high:
        name += f"_planes{high}"
    loads = [
        f"  const model_i32v b{b} = LOAD_I32({offset_of('bias', b * LANES_PER_VECTOR)});"
        for b in range(blocks)
    ]
    for p in range(group):
        for b in range(blocks):
            at = offset_of("sums", (p * blocks + b) * LANES_PER_VECTOR)
            value = f"LOAD_I32({at})"
            if high:
                value += f" + (LOAD_I32({at} + {high}) << 8)"
            loads.append(f"  const model_i32v {sum_name(p, b)} = {value} + b{b};")
    parameters = output_parameters(stores, "int32_t", "sums", has_weights=False)
    lines = [
        f"/* The output stage of {group} positions by {tile.width} outputs. */",
        f"MODEL_INLINE void {name}({parameters})",
        "{",
        *loads,
        *output_lines(tile, stores, sum_name),
        "}",
        "",
    ]
    return name, "\n".join(lines)


def _store_loops(amx: AmxTile, stores: Stores, store: str) -> list[str]:
    group, line, width = _group(amx, stores), amx.line, amx.nest.tile.width
    column = _column(amx, stores)
    index, lines, depth = "i", list[str](), "  "
    rows = amx.nest.tile.positions // line
    if rows > 1:
        lines.append(f"  for (int32_t r = 0; r < {rows}; ++r) {{")
        depth += "  "
    head = f"{depth}for (int32_t i = 0; i < {line}; i += {group}) {{"
    lines += [f"{depth}MODEL_ROLLED", head]
    if line % group:
        lines.append(f"{depth}  const int32_t p = i < {line - group} ? i : {line - group};")
        index = "p"
    row = f"r * {stores.row} + " if rows > 1 else ""
    lines.append(f"{depth}  const int32_t to = {row}{index} * {column};")
    source = f"r * {_sums_pitch(amx) * width} + " if rows > 1 else ""
    arguments = [f"sums + {source}{index} * {width}", "bias", "y + to"]
    if stores.has_residual:
        arguments += ["residual + to", stores.alignment[1]]
    if stores.scale_bits:
        arguments += ["multipliers", "after"]
    arguments.append(stores.shift[1])
    bounds = (("low", stores.low), ("high", stores.high), ("outputs", stores.is_masked))
    arguments += [name for name, is_used in bounds if is_used]
    lines += [f"{depth}  {store}({', '.join(arguments)});", f"{depth}}}"]
    if rows > 1:
        lines.append("  }")
    return lines
