"""
Print register tiles for 64-bit Arm: a few positions by 16 outputs.

Weights have the layout that all vectors share: [steps][outputs][elements of a step]. A loop over
four steps loads 16 bytes of the input of each position, of which a product selects a word. Without
dot products (`MODEL_NEON` 1), two products of bytes are added as 16 bits, which holds them unless a
weight is -128.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ceras_ir.backends.c.register_tiles import NEON, WORDS, Lanes, Stores, Walk

MAX_POSITIONS, MAX_LONG_POSITIONS = 5, 2
"""
The maximum number of positions whose sums, weights and inputs fit 32 registers. With long products,
each output has two partial sums. More positions are computed in several passes.
"""

STEPS = 4
"""Steps of the loop that loads 16 bytes of each position."""

VECTORS = range(4)
"""The vectors of four outputs."""


@dataclass(frozen=True)
class Body:
    """
    The C statements of a tile: before the loops over the steps of a window, in a loop over single
    steps, and after the loops. `several` are loops over several steps before it, with the number of
    steps.
    """

    start: Sequence[str]
    single: Sequence[str]
    stores: Sequence[str]
    several: Sequence[tuple[int, Sequence[str]]] = ()
    positions: int = 0
    """The positions of a pass, of which the last may overlap with the previous; or 0 for all."""
    is_packed: bool = False
    """Whether the weights of 16 outputs are contiguous, in the order of `neon_packing`."""


def neon_bodies(positions: int, lanes: Lanes) -> Iterator[tuple[str, Body]]:
    """
    Return the bodies of the tile for `positions` positions and elements of `lanes`, each with the
    preprocessor condition under which it is compiled.
    """
    few, long = _in_passes(positions, MAX_POSITIONS), _in_passes(positions, MAX_LONG_POSITIONS)
    if lanes is WORDS:
        yield NEON, _words(few)
    else:
        if positions > 1:
            yield f"{NEON} == 3", _matrices(positions, lanes)
        yield f"{NEON} {'==' if positions > 1 else '>='} 2", _dots(few, lanes)
        yield f"{NEON} == 1", _long(long, lanes)


PACKED = f"{NEON} == 3"
"""The preprocessor condition of packed weights."""

MAX_PACKED_BYTES = 40 * 1024
"""The maximum bytes of the packed weights of 16 outputs, on the stack."""


def packed_body(positions: int, lanes: Lanes) -> Body:
    """Return the body of the tile with matrix products and packed weights."""
    return _matrices(positions, lanes, is_packed=True)


def packed_bytes(walk: Walk) -> int:
    """Return the bytes of the packed weights of 16 outputs."""
    return 64 * walk.all_steps


def neon_packing(*, has_pieces: bool) -> str:
    """
    Return the text of a C function that packs the weights of 16 outputs: of four steps, the rows of
    eight bytes of each pair of outputs are adjacent. Further steps are copied.
    """
    pieces = "int32_t pieces, " if has_pieces else ""
    runs = "runs * pieces" if has_pieces else "runs"
    lines = [f"const int8x16_t {name} = vld1q_s8(w + {at});" for name, at in (
        ("a", "16 * b"), ("b0", "4 * width + 16 * b"), ("c", "8 * width + 16 * b"),
        ("d", "12 * width + 16 * b"),
    )]  # fmt: skip
    lines += [
        "vst1q_s8(to + 32 * b, NEON_FIRST(a, b0)), vst1q_s8(to + 32 * b + 16, NEON_SECOND(a, b0));",
        "vst1q_s8(to + 32 * b + 128, NEON_FIRST(c, d));",
        "vst1q_s8(to + 32 * b + 144, NEON_SECOND(c, d));",
    ]
    return "\n".join(
        [
            "/* Packs weights of 16 of `width` outputs for matrix products. */",
            f"MODEL_TILE void {packing_name(has_pieces=has_pieces)}(int8_t *to, const int8_t *w, "
            f"{pieces}int32_t runs, int32_t steps,",
            "    int32_t width)",
            "{",
            f"  for (int32_t run = 0; run < {runs}; ++run) {{",
            "    int32_t i = 0;",
            "    for (; i + 3 < steps; i += 4, w += 16 * width, to += 256)",
            "      for (int32_t b = 0; b < 4; ++b) {",
            *(f"        {line}" for line in lines),
            "      }",
            "    for (; i < steps; ++i, w += 4 * width, to += 64) (void)memcpy(to, w, 64);",
            "  }",
            "}",
            "",
        ]
    )


def packing_name(*, has_pieces: bool) -> str:
    """Return the name of the C function of `neon_packing`."""
    return f"neon_pack_i32{'_pieces' if has_pieces else ''}"


def _in_passes(positions: int, most: int) -> int:
    return -(-positions // -(-positions // most))


def _place(pointer: str, position: int, element: int = 0) -> str:
    terms = [pointer]
    if position:
        terms.append("column" if position == 1 else f"{position} * column")
    return " + ".join([*terms, *([str(element)] if element else [])])


def _weights(step: int, lanes: Lanes) -> str:
    elements = lanes.step * step
    return f"w + {elements} * width" if elements > 1 else "w + width" if elements else "w"


def _to(position: int) -> str:
    return "sums" if not position else f"sums + {'' if position == 1 else f'{position} * '}width"


def _names(position: int) -> str:
    return ", ".join(f"s{position}_{b}" for b in VECTORS)


def _stores(positions: int) -> list[str]:
    return [f"NEON_STORE_SUMS({_to(p)}, {_names(p)});" for p in range(positions)]


def _biased(positions: Sequence[int]) -> list[str]:
    if not positions:
        return []
    first, *others = positions
    loads = ", ".join(f"s{first}_{b} = vld1q_s32(bias + {4 * b})" for b in VECTORS)
    lines = [f"int32x4_t {loads};"]
    lines += [
        f"int32x4_t {', '.join(f's{p}_{b} = s{first}_{b}' for b in VECTORS)};" for p in others
    ]
    return lines


def _input(name: str, position: int, lanes: Lanes, kind: str, element: int = 0) -> str:
    load = f"NEON_{kind}({_place('at', position, element)})"
    if lanes.is_unsigned:
        load = f"NEON_FLIPPED({load})"
    return f"const int8x16_t {name}{position} = {load};"


def _inputs(positions: Sequence[int], lanes: Lanes, kind: str) -> list[str]:
    return [_input("x", p, lanes, kind) for p in positions]


def _dot_lines(positions: Sequence[int], weights: str, step: int | None) -> list[str]:
    # The four bytes of `step` of the 16 bytes of an input, or a repeated word.
    product = "vdotq_s32" if step is None else "vdotq_laneq_s32"
    lane = "" if step is None else f", {step}"
    return [
        " ".join(
            f"s{p}_{b} = {product}(s{p}_{b}, {weights}.val[{b}], x{p}{lane});" for b in VECTORS
        )
        for p in positions
    ]


def _dots(positions: int, lanes: Lanes) -> Body:
    each = range(positions)
    several = _inputs(each, lanes, "LOAD")
    for step in range(STEPS):
        several.append(
            f"NEON_ORDER const int8x16x4_t w{step} = vld1q_s8_x4({_weights(step, lanes)});"
        )
        several += _dot_lines(each, f"w{step}", step)
    single = [*_inputs(each, lanes, "WORD"), "const int8x16x4_t w0 = vld1q_s8_x4(w);"]
    single += _dot_lines(each, "w0", None)
    return Body(_biased(each), single, _stores(positions), ((STEPS, several),), positions)


def _matrices(positions: int, lanes: Lanes, *, is_packed: bool = False) -> Body:
    """
    Return a body that multiplies the rows of two positions by those of two outputs. Of an odd
    number of positions, the last two pairs overlap. Packed weights need no arrangement.
    """
    pairs = [min(p, positions - 2) for p in range(0, positions, 2)]
    start: list[str] = []
    for b in VECTORS:
        start.append(f"const int32x4_t b{b} = vld1q_s32(bias + {4 * b});")
        sums = (f"s{p}_{2 * b + i} = NEON_TWICE(b{b}, {i})" for p in pairs for i in range(2))
        start.append(f"int32x4_t {', '.join(sums)};")

    def products(b: int, half: str, packed: str = "") -> list[str]:
        lines = [f"l = NEON_FIRST(c{b}, d{b}), u = NEON_SECOND(c{b}, d{b});"]
        if packed:
            lines = [f"NEON_ORDER l = vld1q_s8({packed}), u = vld1q_s8({packed} + 16);"]
        for p in pairs:
            first, second = f"s{p}_{2 * b}", f"s{p}_{2 * b + 1}"
            lines.append(
                f"{first} = vmmlaq_s32({first}, {half}{p}, l), "
                f"{second} = vmmlaq_s32({second}, {half}{p}, u);"
            )
        return lines

    several = _inputs(range(positions), lanes, "LOAD")
    single = _inputs(range(positions), lanes, "WORD")
    for p in pairs:
        for half in ("lower", "upper"):
            several.append(f"const int8x16_t {half}{p} = NEON_{half.upper()}(x{p}, x{p + 1});")
        single.append(f"const int8x16_t pair{p} = NEON_LOWER(x{p}, x{p + 1});")
    several.append("int8x16_t l, u;")
    single.append("int8x16_t l, u;")
    single += [f"const int8x16_t d{b} = vdupq_n_s8(0);" for b in VECTORS]
    for step, half in ((0, "lower"), (2, "upper")):
        if is_packed:
            for b in VECTORS:
                several += products(b, half, f"w + {64 * step + 32 * b}")
            continue
        several.append("{")
        for b in VECTORS:
            several += [*_two_steps(b, step, lanes), *products(b, half)]
        several.append("}")
    for b in VECTORS:
        single += [_vector("c", b, 0, lanes), *products(b, "pair")]
    stores = [
        f"NEON_STORE_SUMS({_to(p + i)}, "
        + ", ".join(f"NEON_ROW_{i}(s{p}_{2 * b}, s{p}_{2 * b + 1})" for b in VECTORS)
        + ");"
        for p in pairs
        for i in range(2)
    ]
    return Body(start, single, stores, ((STEPS, several),), is_packed=is_packed)


def _vector(name: str, vector: int, step: int, lanes: Lanes) -> str:
    place = _weights(step, lanes) + (f" + {16 * vector}" if vector else "")
    return f"const int8x16_t {name}{vector} = vld1q_s8({place});"


def _two_steps(vector: int, step: int, lanes: Lanes) -> list[str]:
    """Load weights of `step` and the next, of two vectors, before the first of the two is used."""
    if vector % 2:
        return []
    loads = (
        _vector(name, vector + i, step + at, lanes) for at, name in enumerate("cd") for i in (0, 1)
    )
    return ["NEON_ORDER", *loads]


def _long(positions: int, lanes: Lanes) -> Body:
    """
    Return a body of long products. The sum of an output has two parts, of which each adds half of
    the bytes of a step.
    """
    each = range(positions)
    start = [
        f"int32x4_t {', '.join(f's{p}_{m} = vdupq_n_s32(0)' for m in range(8))};" for p in each
    ]
    add = "NEON_ADD_PAIR" if not lanes.is_full else "NEON_ADD_EACH"
    temporary = ["int16x8_t t;"] if not lanes.is_full else []

    def pair(step: int) -> list[str]:
        lines: list[str] = []
        for b in VECTORS:
            lines += _two_steps(b, step, lanes)
            lines += [
                f"{add}(s{p}_{2 * b}, s{p}_{2 * b + 1}, c{b}, x{p}, d{b}, y{p});" for p in each
            ]
        return lines

    several = [*temporary]
    several += [f"{_input('q', p, lanes, 'LOAD')[6:]} NEON_HELD(q{p});" for p in each]
    for step in range(0, STEPS, 2):
        several.append("{")
        several += [
            f"const int8x16_t {name}{p} = NEON_ELEMENT(q{p}, {step + at});"
            for p in each
            for at, name in enumerate("xy")
        ]
        several += [*pair(step), "}"]
    single = _inputs(each, lanes, "WORD")
    two = [*temporary, *single, *(_input("y", p, lanes, "WORD", lanes.step) for p in each)]
    two += pair(0)
    for b in VECTORS:
        single.append(_vector("c", b, 0, lanes))
        single += [f"NEON_ADD(s{p}_{2 * b}, s{p}_{2 * b + 1}, c{b}, x{p});" for p in each]
    stores = [
        f"NEON_STORE_SUMS({_to(p)}, "
        + ", ".join(
            f"vaddq_s32(vpaddq_s32(s{p}_{2 * b}, s{p}_{2 * b + 1}), vld1q_s32(bias + {4 * b}))"
            for b in VECTORS
        )
        + ");"
        for p in each
    ]
    return Body(start, single, stores, ((STEPS, several), (2, two)), positions)


def _words(positions: int) -> Body:
    """Return a body that multiplies 16-bit elements of the input by widened weights."""
    each = range(positions)
    parts = (("lo", ""), ("lo", "_high"), ("hi", ""), ("hi", "_high"))

    def products(weights: str, element: int, kind: str, factor: str) -> list[str]:
        # `factor` is the format of the element of position `p`.
        w = f"{weights}.val[{element}]"
        lines = [f"lo = vmovl_s8(vget_low_s8({w})), hi = vmovl_high_s8({w});"]
        for p in each:
            x = factor.format(p=p)
            for b, (half, place) in enumerate(parts):
                operand = half if place else f"vget_low_s16({half})"
                lines.append(f"s{p}_{b} = vmlal{place}_{kind}_s16(s{p}_{b}, {operand}, {x});")
        return lines

    several = [f"const int16x8_t x{p} = vld1q_s16({_place('at', p)});" for p in each]
    several.append("int16x8_t lo, hi;")
    for step in range(STEPS):
        several.append(f"NEON_ORDER const int8x16x2_t w{step} = vld2q_s8({_weights(step, WORDS)});")
        for element in range(WORDS.step):
            lane = WORDS.step * step + element
            several += products(f"w{step}", element, "laneq", f"x{{p}}, {lane}")
    single = ["const int8x16x2_t w0 = vld2q_s8(w);", "int16x8_t lo, hi;"]
    for element in range(WORDS.step):
        single += [f"const int16_t v{p}_{element} = *({_place('at', p, element)});" for p in each]
        single += products("w0", element, "n", f"v{{p}}_{element}")
    return Body(_biased(each), single, _stores(positions), ((STEPS, several),), positions)


def neon_output(stores: Stores) -> Iterator[str]:
    """Return the C statements of the output stage of eight outputs on 64-bit Arm."""
    if stores.has_residual:
        at = "&residual[at + o]"
        load = f"vmovl_s8(vld1_s8({at}))" if stores.residual_bits == 8 else f"vld1q_s16({at})"
        yield f"const int16x8_t skip = {load};"
        for v, part in (("a", "vmovl_s16(vget_low_s16(skip))"), ("b", "vmovl_high_s16(skip)")):
            factor = "vdupq_n_s32(1 << left_shift)"
            if stores.has_factors:
                factor = f"vld1q_s32(&factors[{'o' if v == 'a' else 'o + 4'}])"
            yield f"{v} = vmlaq_s32({v}, {part}, {factor});"
    for v, place in (("a", "o"), ("b", "o + 4")):
        if stores.scale_bits:
            scaled = f"NEON_SCALED_{stores.scale_bits}"
            yield f"{v} = {scaled}({v}, &multipliers[{place}], after, shift);"
            continue
        shifted = f"NEON_SHIFTED({v}, shift)"
        if stores.has_shifts:
            shifted = f"NEON_SHIFTED_BY({v}, &shifts[{place}])"
        if stores.is_even:
            yield f"{v} = vaddq_s32({v}, vandq_s32({shifted}, vdupq_n_s32(1)));"
        yield f"{v} = {shifted};"
    yield f"NEON_STORE_{stores.result}_t(&y[at + o], a, b, low, high);"
