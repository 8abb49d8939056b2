"""
Register tiles where vectors have 8 lanes, or 4, or RISC-V's: a tile is made of smaller ones, of a
few positions by 16 outputs, which all shapes share. They read the same weights; integer sums are
the same.

Tiles of RISC-V's vector extension are intrinsics: a few positions by `taken` outputs in groups of
four registers, whatever their length. An element of the input is a scalar factor.
"""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.register_tiles import (
    CONDITION,
    FLOAT_LANES,
    FLOATS,
    LANES,
    RVV,
    Lanes,
    Walk,
    inner_loops,
    pieces_parameters,
)


def rvv_products(name: str, positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    """The text of the function `name`: sums of `positions` by `taken` outputs."""
    body = _float_step if lanes is FLOATS else _integer_step
    kind, number = ("f32", "float") if lanes is FLOATS else ("i32", "int32_t")
    weights = "float" if lanes is FLOATS else "int8_t"
    vector = f"v{'float' if lanes is FLOATS else 'int'}32m4_t"
    step = f"{lanes.step} * width" if lanes.step > 1 else "width"
    each = range(positions)
    start = [f"  {vector} s0 = __riscv_vle32_v_{kind}m4(bias, vl);"]
    if lanes is FLOATS:
        start = [
            f"  {vector} s0 = __riscv_vfmv_v_f_f32m4(0.0f, vl);",
            "  if (bias) s0 = __riscv_vle32_v_f32m4(bias, vl);",
        ]
    opening, closing = inner_loops(lanes.element, has_pieces=has_pieces)
    lines = [
        f"/* {positions} positions, `column` apart, by `taken` of `width` outputs. */",
        f"MODEL_TILE void {name}(const {lanes.element} *x, "
        f"{pieces_parameters(has_pieces=has_pieces)}int32_t runs, int32_t steps, int32_t pitch,",
        f"    int32_t column, const {weights} *w, int32_t width, int32_t taken,",
        f"    const {number} *bias, {number} *sums)",
        "{",
        *(["  (void)column;"] if positions == 1 else []),
        "  const size_t vl = (size_t)taken;",
        *start,
        *([f"  {vector} {', '.join(f's{p} = s0' for p in each[1:])};"] if positions > 1 else []),
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
        *opening,
        "    MODEL_ROLLED",
        f"    for (int32_t i = 0; i < steps; ++i, at += {lanes.step}, w += {step}) {{",
        *(f"      {text}" for text in body(positions, lanes)),
        *closing,
        "  }",
    ]
    for p in each:
        to = f"sums + {_times(p, 'width')}" if p else "sums"
        lines.append(f"  __riscv_vse32_v_{kind}m4({to}, s{p}, vl);")
    return "\n".join([*lines, "}", ""])


def _times(count: int, name: str) -> str:
    return f"{count} * {name}" if count > 1 else name


def _at(position: int, element: int) -> str:
    """An element of a position."""
    terms = [_times(position, "column")] if position else []
    return f"at[{' + '.join([*terms, *([str(element)] if element or not terms else [])])}]"


def _integer_step(positions: int, lanes: Lanes) -> list[str]:
    """The bytes of one output lie side by side: a segment load parts them, one after the other."""
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


MOST_SMALL_POSITIONS = 6
"""
Positions of the small tiles: with 16 outputs, sums and weights fit 16 registers of 8 lanes, and
32 of 4 (RISC-V's in groups of four).
"""


def _groups(columns: int) -> list[int]:
    """How many positions of a row each small tile takes."""
    count = -(-columns // MOST_SMALL_POSITIONS)
    return [columns // count + (i < columns % count) for i in range(count)]


def _name(positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    kind = lanes.suffix + "_pieces" * has_pieces
    return f"sums_{'f32' if lanes is FLOATS else 'i32'}_{positions}{kind}"


def add_products(kernels: Kernels, walk: Walk, lanes: Lanes) -> None:
    """Add the small tiles that a tile is made of."""
    kernels.use("vectors_f32" if lanes is FLOATS else "vectors_256")
    kernels.use("taken_outputs")
    has_pieces = walk.pieces > 1
    for positions in sorted({size for part in _parts(walk) for size in _groups(part)}):
        name = _name(positions, lanes, has_pieces=has_pieces)
        if lanes is FLOATS:
            for count in (8, 4):
                text = _float_products(positions, LANES // count, has_pieces=has_pieces)
                kernels.add(f"{name} of {count}", text, f"{FLOAT_LANES} == {count} && !{RVV}")
        else:
            text = _products(positions, lanes, has_pieces=has_pieces)
            kernels.add(name, text, f"{CONDITION} == 8")
        text = rvv_products(name, positions, lanes, has_pieces=has_pieces)
        kernels.add(f"{name} of RISC-V", text, RVV)


def _parts(walk: Walk) -> list[int]:
    """Runs of positions that are evenly far apart: rows, or all of them in a column."""
    t = walk.tile
    return [t.rows] if t.columns == 1 else [t.columns] * t.rows


def sums_lines(walk: Walk, lanes: Lanes, bias: str = "bias + o") -> list[str]:
    """Statements that compute the array `sums` of a tile, as [positions, outputs]."""
    t = walk.tile
    distance = walk.row if t.columns == 1 else walk.column
    lines = [
        f"  for (int32_t o = 0, taken; o < {t.width}; o += taken) {{",
        f"    taken = MODEL_TAKEN({t.width} - o);",
    ]
    position = 0
    pieces = f"{walk.pieces}, {walk.piece}, " if walk.pieces > 1 else ""
    weights = f"w + {lanes.step} * o" if lanes.step > 1 else "w + o"
    for size in (size for part in _parts(walk) for size in _groups(part)):
        offset = walk.offsets[position]
        at = f"x + {offset}" if offset else "x"
        to = f"sums + o + {position * t.width}" if position else "sums + o"
        lines += [
            f"    {_name(size, lanes, has_pieces=bool(pieces))}({at}, {pieces}{walk.runs}, "
            f"{walk.steps}, {walk.pitch}, {distance},",
            f"        {weights}, {t.width}, taken, {bias}, {to});",
        ]
        position += size
    return [*lines, "  }"]


def _products(positions: int, lanes: Lanes, *, has_pieces: bool) -> str:
    """Sums of `positions` by 16 outputs; every distance is a parameter."""
    each = range(positions)
    load, step = f"{lanes.load_weights}_256", lanes.step
    first = ["s0_0 = LOAD_256(bias)", "s0_1 = LOAD_256(bias + 8)"]
    start = first + [f"s{p}_{b} = s0_{b}" for p in each[1:] for b in (0, 1)]
    opening, closing = inner_loops(lanes.element, has_pieces=has_pieces)
    lines = [
        f"/* {positions} positions, `column` apart, by 16 of `width` outputs. */",
        f"MODEL_TILE void {_name(positions, lanes, has_pieces=has_pieces)}"
        f"(const {lanes.element} *x, {pieces_parameters(has_pieces=has_pieces)}int32_t runs, "
        "int32_t steps, int32_t pitch,",
        "    int32_t column, const int8_t *w, int32_t width, int32_t taken,",
        "    const int32_t *bias, int32_t *sums)",
        "{",
        "  (void)taken;",
        *(["  (void)column;"] if positions == 1 else []),
        f"  model_256 {', '.join(start)};",
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
        *opening,
        "    MODEL_ROLLED",
        f"    for (int32_t i = 0; i < steps; ++i, at += {step}, w += {step} * width) {{",
        f"      const model_256 w0 = {load}(w), w1 = {load}(w + {8 * step});",
        "      model_256 v;",
    ]
    for p in each:
        at = f"at + {p} * column" if p > 1 else "at + column" if p else "at"
        lines.append(
            f"      v = {lanes.splat}_256({at}), s{p}_0 = {lanes.dot}_256(s{p}_0, v, w0), "
            f"s{p}_1 = {lanes.dot}_256(s{p}_1, v, w1);"
        )
    lines += [*closing, "  }"]
    for p in each:
        to = f"sums + {p} * width" if p > 1 else "sums + width" if p else "sums"
        lines.append(f"  STORE_256({to}, s{p}_0), STORE_256({to} + 8, s{p}_1);")
    return "\n".join([*lines, "}", ""])


def _float_products(positions: int, vectors: int, *, has_pieces: bool) -> str:
    """Sums of `positions` by 16 outputs in so many vectors; without a bias they start from 0."""
    each, blocks = range(positions), range(vectors)
    lanes = LANES // vectors

    def offset(pointer: str, b: int) -> str:
        return f"{pointer} + {b * lanes}" if b else pointer

    def times(p: int, name: str) -> str:
        return f"{p} * {name}" if p > 1 else name

    opening, closing = inner_loops("float", has_pieces=has_pieces)
    lines = [
        f"/* {positions} positions, `column` apart, by 16 of `width` outputs. */",
        f"MODEL_TILE void {_name(positions, FLOATS, has_pieces=has_pieces)}(const float *x, "
        f"{pieces_parameters(has_pieces=has_pieces)}int32_t runs, int32_t steps, int32_t pitch,",
        "    int32_t column, const float *w, int32_t width, int32_t taken,",
        "    const float *bias, float *sums)",
        "{",
        "  (void)taken;",
        *(["  (void)column;"] if positions == 1 else []),
    ]
    zeros = (f"s0_{b} = {{0}}" for b in blocks)
    starts = (f"s0_{b} = LOAD_F32({offset('bias', b)})" for b in blocks)
    lines += [f"  model_f32v {', '.join(zeros)};", f"  if (bias) {', '.join(starts)};"]
    lines += [f"  model_f32v {', '.join(f's{p}_{b} = s0_{b}' for b in blocks)};" for p in each[1:]]
    lines += [
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
        *opening,
        "    MODEL_ROLLED",
        "    for (int32_t i = 0; i < steps; ++i, ++at, w += width) {",
        "      const model_f32v "
        + ", ".join(f"w{b} = LOAD_F32({offset('w', b)})" for b in blocks)
        + ";",
        "      model_f32v v;",
    ]
    for p in each:
        at = f"at + {times(p, 'column')}" if p else "at"
        products = ", ".join(f"s{p}_{b} = FMA(s{p}_{b}, v, w{b})" for b in blocks)
        lines.append(f"      v = SPLAT_F32({at}), {products};")
    lines += [*closing, "  }"]
    for p in each:
        to = f"sums + {times(p, 'width')}" if p else "sums"
        stores = (f"STORE_F32({offset(to, b)}, s{p}_{b})" for b in blocks)
        lines.append(f"  {', '.join(stores)};")
    return "\n".join([*lines, "}", ""])
