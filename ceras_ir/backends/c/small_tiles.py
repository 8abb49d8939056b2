"""
Print register tiles for vectors of 8 or 4 lanes and for RISC-V vectors.

Tiles of all shapes consist of calls of a smaller tile, which computes a few positions by 16
outputs. The integer sums are equal. Tiles for 64-bit Arm are in `neon_tiles.py`. A tile for RISC-V
uses intrinsics. It computes a few positions by `taken` outputs, in groups of four registers of any
length. An input element is a scalar factor.
"""

from collections.abc import Sequence

from ceras_ir.backends.c.constants import QUADS
from ceras_ir.backends.c.neon_tiles import (
    MAX_PACKED_BYTES,
    MAX_POSITIONS,
    PACKED,
    Body,
    neon_bodies,
    neon_packing,
    packed_body,
    packed_bytes,
    packing_name,
)
from ceras_ir.backends.c.quads import (
    LANES,
    MOST_POSITIONS,
    half_lines,
    held_sums,
    order_size,
    quads_function,
    quads_name,
)
from ceras_ir.backends.c.register_tiles import (
    BYTE_LANES,
    CONDITION,
    FLOATS,
    NEON,
    RVV,
    Lanes,
    Walk,
)
from ceras_ir.backends.c.values import Kernels


def _function(
    positions: int,
    lanes: Lanes,
    unused: Sequence[str],
    body: Body,
    *,
    has_pieces: bool,
) -> str:
    """
    Return the text of a C function that computes the sums of `positions` positions by up to 16
    outputs. `body` has the C statements before, in and after the loops over products. `unused` are
    parameters that this variant does not use. `has_pieces` is whether a row of a window has several
    contiguous pieces.
    """

    def loop(head: str, count: int, lines: Sequence[str]) -> list[str]:
        elements = count * lanes.step
        advance = f"at += {elements}" if elements > 1 else "++at"
        by = f"i += {count}" if count > 1 else "++i"
        further = str(16 * elements) if body.is_packed else _times(elements, "width")
        return [
            "    MODEL_ROLLED",
            f"    for ({head} < steps; {by}, {advance}, w += {further}) {{",
            *(f"      {line}" for line in lines),
            "    }",
        ]

    weight, number = ("float", "float") if lanes is FLOATS else ("int8_t", "int32_t")
    outputs = "16" if "taken" in unused else "`taken`"
    pieces = "int32_t pieces, int32_t piece, " if has_pieces else ""
    name = _name(positions, lanes, has_pieces=has_pieces) + "_packed" * body.is_packed
    lines = [
        f"/* {positions} positions, `column` apart, by {outputs} of `width` outputs. */",
        f"MODEL_TILE void {name}(const {lanes.element} *x, {pieces}int32_t runs, int32_t steps, "
        "int32_t pitch,",
        f"    int32_t column, const {weight} *w, int32_t width, int32_t taken,",
        f"    const {number} *bias, {number} *sums)",
        "{",
        *(f"  (void){name};" for name in (*unused, *(["column"] if positions == 1 else []))),
    ]
    in_passes = 0 < body.positions < positions
    if in_passes:
        lines += [
            f"  const {lanes.element} *const start = x;",
            f"  const {weight} *const weights = w;",
            f"  {number} *const to = sums;",
            f"  for (int32_t p = 0; p < {positions}; p += {body.positions}) {{",
            f"  const int32_t last = {positions - body.positions}, first = p < last ? p : last;",
            "  x = start + first * column, w = weights, sums = to + first * width;",
        ]
    lines += [
        *(f"  {line}" for line in body.start),
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
    ]
    if has_pieces:
        lines.append(f"    const {lanes.element} *part = x;")
        lines.append("    for (int32_t p = 0; p < pieces; ++p, part += piece) {")
    lines.append(f"    const {lanes.element} *at = {'part' if has_pieces else 'x'};")
    if body.several:
        lines.append("    int32_t i = 0;")
    for count, several in body.several:
        lines += loop(f"; i + {count - 1}", count, several)
    lines += loop(";" + " i" if body.several else "int32_t i = 0; i", 1, body.single)
    lines += ["    }"] if has_pieces else []
    lines += ["  }", *(f"  {line}" for line in body.stores)]
    lines += ["  }"] if in_passes else []
    return "\n".join([*lines, "}", ""])


def _rvv_products(positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    is_float, each = lanes is FLOATS, range(positions)
    kind, vector = ("f32", "vfloat32m4_t") if is_float else ("i32", "vint32m4_t")
    start = ["const size_t vl = (size_t)taken;"]
    if is_float:
        start.append(f"{vector} s0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);")
        start.append("if (bias) s0 = __riscv_vle32_v_f32m4(bias, vl);")
    else:
        start.append(f"{vector} s0 = __riscv_vle32_v_i32m4(bias, vl);")
    if positions > 1:
        start.append(f"{vector} {', '.join(f's{p} = s0' for p in each[1:])};")
    step = (_float_step if is_float else _integer_step)(positions, lanes)
    stores = [f"__riscv_vse32_v_{kind}m4({_row('sums', p, 'width')}, s{p}, vl);" for p in each]
    return _function(positions, lanes, (), Body(start, step, stores), has_pieces=has_pieces)


def _times(count: int, name: str) -> str:
    return f"{count} * {name}" if count > 1 else name


def _row(pointer: str, index: int, distance: str) -> str:
    return f"{pointer} + {_times(index, distance)}" if index else pointer


def _at(position: int, element: int) -> str:
    terms = [_times(position, "column")] if position else []
    return f"at[{' + '.join([*terms, *([str(element)] if element or not terms else [])])}]"


def _integer_step(positions: int, lanes: Lanes) -> list[str]:
    """
    Return the C statements for RISC-V that add the products of a step to the sums: `lanes.step`
    adjacent weights of each output times elements of the input.
    """
    tuples = f"i8m1x{lanes.step}"
    lines = [
        f"const vint8m1x{lanes.step}_t bytes = __riscv_vlseg{lanes.step}e8_v_{tuples}(w, vl);",
        "vint16m2_t v;",
    ]
    for element in range(lanes.step):
        part = f"__riscv_vget_v_{tuples}_i8m1(bytes, {element})"
        lines.append(f"v = __riscv_vsext_vf2_i16m2({part}, vl);")
        lines += [
            f"s{p} = __riscv_vwmacc_vx_i32m4(s{p}, {_at(p, element)}, v, vl);"
            for p in range(positions)
        ]
    return lines


def _float_step(positions: int, lanes: Lanes) -> list[str]:
    assert lanes.step == 1
    return [
        "const vfloat32m4_t v = __riscv_vle32_v_f32m4(w, vl);",
        *(f"s{p} = __riscv_vfmacc_vf_f32m4(s{p}, {_at(p, 0)}, v, vl);" for p in range(positions)),
    ]


MAX_SMALL_TILE_POSITIONS = 6
"""
The maximum number of positions: with 16 outputs, sums and weights fit 16 registers of 8 lanes, and
32 registers of 4 lanes (of RISC-V in groups of four).
"""


def small_positions(columns: int, unit: int = 1, most: int = MAX_SMALL_TILE_POSITIONS) -> list[int]:
    """
    Return the numbers of positions, at most `most`, of the small tiles that together compute
    `columns` adjacent positions: 8 -> [4, 4]. They are multiples of `unit` if that divides
    `columns`.
    """
    unit = unit if columns % unit == 0 else 1
    count, units = -(-columns // most), columns // unit
    return [unit * (units // count + (i < units % count)) for i in range(count)]


def _small(walk: Walk, *, for_dots: bool = False) -> list[int]:
    """
    Return the numbers of positions of the small tiles. Those of long tiles are even, or `for_dots`
    as many as dot products compute at once.
    """
    unit = 2 if walk.is_long and not for_dots else 1
    most = MAX_POSITIONS if for_dots else MAX_SMALL_TILE_POSITIONS
    return [size for part in walk.tile.equidistant for size in small_positions(part, unit, most)]


def _is_packed(walk: Walk, lanes: Lanes) -> bool:
    """Return whether matrix products of 64-bit Arm read packed weights."""
    is_bytes = lanes.step == BYTE_LANES.step and not lanes.has_halves
    return walk.is_long and is_bytes and packed_bytes(walk) <= MAX_PACKED_BYTES


def _name(positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    kind = lanes.suffix + "_pieces" * has_pieces
    return f"sums_{'f32' if lanes is FLOATS else 'i32'}_{positions}{kind}"


def add_products(kernels: Kernels, walk: Walk, lanes: Lanes) -> None:
    """
    Add the C functions of the small tiles to the kernels. They compute a register tile of shape
    `walk` on processors with vectors of 8 or 4 lanes and with RISC-V vectors.
    """
    kernels.use("taken_outputs")
    has_pieces = walk.pieces > 1
    if lanes is FLOATS:
        kernels.use("vectors_f32")
        for positions in sorted(set(_small(walk))):
            text = _rvv_products(positions, lanes, has_pieces=has_pieces)
            kernels.add(_name(positions, lanes, has_pieces=has_pieces), text, RVV)
        return
    kernels.use("vectors_256")
    kernels.use("vectors_neon")
    if is_packed := _is_packed(walk, lanes):
        text = neon_packing(has_pieces=has_pieces)
        kernels.add(packing_name(has_pieces=has_pieces), text, PACKED)
    for positions in sorted(set(_quad_sizes(walk))) if walk.is_ordered else ():
        kernels.add(quads_name(positions, lanes), quads_function(positions, lanes), QUADS)
    sizes = {*_small(walk), *(_small(walk, for_dots=True) if walk.is_long else ())}
    for positions in sorted(sizes):
        name = _name(positions, lanes, has_pieces=has_pieces)
        text = _products(positions, lanes, has_pieces=has_pieces)
        kernels.add(name, text, f"{CONDITION} == 8")
        for condition, body in neon_bodies(positions, lanes):
            text = _function(positions, lanes, ("taken",), body, has_pieces=has_pieces)
            kernels.add(f"{name} of {condition}", text, condition)
        if is_packed and positions > 1:
            body = packed_body(positions, lanes)
            text = _function(positions, lanes, ("taken",), body, has_pieces=has_pieces)
            kernels.add(f"{name}_packed", text, PACKED)
        text = _rvv_products(positions, lanes, has_pieces=has_pieces)
        kernels.add(f"{name} of RISC-V", text, RVV)


def _quad_sizes(walk: Walk) -> list[int]:
    return [n for part in walk.tile.equidistant for n in small_positions(part, most=MOST_POSITIONS)]


def sums_lines(walk: Walk, lanes: Lanes, bias: str = "bias + o") -> list[str]:
    """
    Return C statements that compute the array `sums` [positions, outputs] of a register tile by
    calls of small tiles. `bias` is the C expression of the initial values.
    """
    if walk.is_ordered:
        calls = _calls(walk, lanes, bias, _small(walk))
        return [f"#if {QUADS}", *_quad_calls(walk, lanes), "#else", *calls, "#endif"]
    if not walk.is_long:
        return _calls(walk, lanes, bias, _small(walk))
    lines: list[str] = []
    if _is_packed(walk, lanes):
        lines += [f"#if {PACKED}", f"  int8_t packed[{packed_bytes(walk)}];"]
        lines += _calls(walk, lanes, bias, _small(walk), is_packed=True)
    return [
        *lines,
        f"#{'elif' if lines else 'if'} {NEON} == 2",
        *_calls(walk, lanes, bias, _small(walk, for_dots=True)),
        "#else",
        *_calls(walk, lanes, bias, _small(walk)),
        "#endif",
    ]


def _calls(
    walk: Walk, lanes: Lanes, bias: str, sizes: Sequence[int], *, is_packed: bool = False
) -> list[str]:
    t = walk.tile
    distance = walk.row if t.columns == 1 else walk.column
    lines = [
        f"  for (int32_t o = 0, taken; o < {t.width}; o += taken) {{",
        f"    taken = MODEL_TAKEN({t.width} - o);",
    ]
    position = 0
    pieces = f"{walk.pieces}, {walk.piece}, " if walk.pieces > 1 else ""
    weights = f"w + {lanes.step} * o" if lanes.step > 1 else "w + o"
    if is_packed:
        pack, count = packing_name(has_pieces=bool(pieces)), f"{walk.pieces}, " if pieces else ""
        lines.append(f"    {pack}(packed, {weights}, {count}{walk.runs}, {walk.steps}, {t.width});")
        weights = "packed"
    for size in sizes:
        offset = walk.offsets[position]
        at = f"x + {offset}" if offset else "x"
        to = f"sums + o + {position * t.width}" if position else "sums + o"
        lines += [
            f"    {_name(size, lanes, has_pieces=bool(pieces))}{'_packed' * is_packed}"
            f"({at}, {pieces}{walk.runs}, "
            f"{walk.steps}, {walk.pitch}, {distance},",
            f"        {weights}, {t.width}, taken, {bias}, {to});",
        ]
        position += size
    return [*lines, "  }"]


def _quad_calls(walk: Walk, lanes: Lanes) -> list[str]:
    """Return calls that multiply steps in the order that is an argument of the tile."""
    t = walk.tile
    distance = walk.row if t.columns == 1 else walk.column
    lines = [f"  for (int32_t o = 0; o < {t.width}; o += {LANES}) {{"]
    position = 0
    for size in _quad_sizes(walk):
        at = f"x + {walk.offsets[position]}" if walk.offsets[position] else "x"
        lines += [
            f"    {quads_name(size, lanes)}({at}, {walk.all_steps}, {distance},",
            f"        w + {lanes.step * walk.all_steps} * o, {t.width}, order + o / {LANES} * "
            f"{order_size(walk)}, bias + o, sums + o + {position * t.width});",
        ]
        position += size
    return [*lines, "  }"]


def _products(positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    """
    Return the text of a C function that computes integer sums for `positions` positions and 16
    outputs, in vectors of 8 lanes. With `has_pieces`, each row of a window is divided into pieces.
    """
    each = range(positions)
    load, step = f"{lanes.load_weights}_256", lanes.step
    is_bytes = lanes.step == BYTE_LANES.step and not lanes.has_halves
    sums = ["s0_0 = LOAD_256(bias)", "s0_1 = LOAD_256(bias + 8)"]
    sums += [f"s{p}_{b} = s0_{b}" for p in each[1:] for b in (0, 1)]
    body = [f"const model_256 w0 = {load}(w), w1 = {load}(w + {8 * step});", "model_256 v;"]
    stores: list[str] = []
    for p in each:
        body.append(
            f"v = {lanes.splat}_256({_row('at', p, 'column')}), s{p}_0 = {lanes.dot}_256(s{p}_0, "
            f"v, w0), s{p}_1 = {lanes.dot}_256(s{p}_1, v, w1);"
        )
        to = _row("sums", p, "width")
        stores.append(f"STORE_256({to}, s{p}_0), STORE_256({to} + 8, s{p}_1);")
    if is_bytes:
        body = [
            f"#if {QUADS}",
            *half_lines(positions, 2, lanes, "at", "w"),
            "#else",
            *body,
            "#endif",
        ]
    body.append(held_sums([f"s{p}_{b}" for p in each for b in (0, 1)]))
    parts = Body([f"model_256 {', '.join(sums)};"], body, stores)
    return _function(positions, lanes, ("taken",), parts, has_pieces=has_pieces)
