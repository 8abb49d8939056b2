"""
Print register tiles: C functions that add products for a few positions and outputs.

A tile computes `runs` rows of `steps` steps. A step multiplies four bytes (two words, one float) of
each position by a vector of weights per 16 outputs. Positions are at literal distances. Each sum
has a name, so that compilers keep it in a register. Sums are stored unchanged, as bytes or words,
or as floats.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ceras_ir.backends.c import neon_floats
from ceras_ir.backends.c.neon_floats import FinishedTile
from ceras_ir.backends.c.neon_tiles import neon_output
from ceras_ir.backends.c.packed_rows import unpacked_lines
from ceras_ir.backends.c.packed_words import BYTES
from ceras_ir.backends.c.register_tiles import (
    FLOATS,
    HAS_16_LANES,
    LANES_PER_VECTOR,
    MOVED_BYTES,
    NEON,
    VECTOR_REGISTERS,
    Lanes,
    Stores,
    Tile,
    Walk,
)
from ceras_ir.backends.c.small_tiles import sums_lines
from ceras_ir.backends.c.values import Kernels
from ceras_ir.dialects.quant import BYTE_BITS

MIN_FETCHED_BYTES = 4 * 1024
"""
Bytes of a panel of weights from which prefetch pays. Processors prefetch only within a page of 4
KiB, and late if each byte is used in few products.
"""
MAX_FETCH_DISTANCE = 10 * 1024
"""The maximum prefetch distance in bytes: a third of the first-level cache."""
CACHE_LINE = 64

PART_STORES = {1: "STORE_WHOLE", 2: "STORE_HALF", 4: "STORE_QUARTER"}
"""The macros that store a packed vector, a half or a quarter of it."""

ORDER_PARAMETER = ", const uint16_t *order"
"""The C parameter of the inputs of steps in their order; see `quads.py`."""

HALF_PREFIX, HALF_VECTOR = "HALF_", "model_i32h"
"""The prefix of macros for vectors of 8 lanes, and their type."""


def sum_name(position: int, block: int) -> str:
    return f"s{position}_{block}"


def offset_of(pointer: str, offset: int) -> str:
    return f"{pointer} + {offset}" if offset else pointer


def product_lines(walk: Walk, lanes: Lanes, start: str = "") -> list[str]:
    """
    Return the C statements that compute the sums of a register tile. Sums start at the values of
    the C array `bias`, or at the expression `start` if it is given.
    """
    step, blocks, positions = lanes.step, walk.tile.blocks, range(walk.tile.positions)
    half = [walk.ends_in_half and b == blocks - 1 for b in range(blocks)]

    def defined(prefix: str, values: Sequence[str], qualifier: str = "") -> str:
        pairs = [f"{prefix}{b} = {value}" for b, value in enumerate(values)]
        last = f"{qualifier}{HALF_VECTOR} {pairs.pop()};" if half[-1] else ""
        full = f"{qualifier}{lanes.vector} {', '.join(pairs)};" if pairs else ""
        return f"{full} {last}".strip()

    def of(function: str, b: int) -> str:
        return HALF_PREFIX * half[b] + function

    first = [
        start or f"{of(lanes.load, b)}({offset_of('bias', b * LANES_PER_VECTOR)})"
        for b in range(blocks)
    ]
    lines = [
        "  " + defined(f"s{p}_", first if p == 0 else [sum_name(0, b) for b in range(blocks)])
        for p in positions
    ]
    halves = [("LOWER", 0), ("UPPER", step // 2)] if lanes.has_halves else [("", 0)]
    weights = {
        name: [
            f"{of(lanes.load_weights + name, b)}({offset_of('w', b * LANES_PER_VECTOR * step)})"
            for b in range(blocks)
        ]
        for name, _ in halves
    }
    packed: list[str] = []
    if (form := lanes.packed) is not None:
        # A field is a weight plus half the range: `offset` adds up these halves times the input.
        vectors_of_step = blocks // form.words * form.packed_words
        packed = [
            f"const {lanes.vector} p{i} = {lanes.load_weights}({offset_of('w', i * CACHE_LINE)});"
            for i in range(vectors_of_step)
        ]
        weights[""] = [
            form.fields(b % form.words, BYTES, first=b // form.words * form.packed_words)
            for b in range(blocks)
        ]
        lines.append(f"  {lanes.vector} offset = ALL_I32(0);")
        lines.append(f"  const {lanes.vector} halves = ALL_I32(0x{BYTES << form.bits - 1:08x});")
    products = [
        ", ".join(
            f"{sum_name(p, b)} = {of(lanes.dot, b)}({sum_name(p, b)}, v, w{b})"
            for b in range(blocks)
        )
        for p in positions
    ]
    if form is not None:
        products = [f"offset = {lanes.dot}(offset, v, halves), {text}" for text in products]
    depth, vectors, steps = "  ", walk.tile.width * step, walk.steps
    if form is not None:
        vectors = vectors * form.bits // BYTE_BITS
    if walk.joins_ends:
        steps -= 1
        lines.append(
            f"  const {lanes.element} *const ends = x + {steps * step};\n"
            f"  const int8_t *const last = w + {steps * vectors};"
        )
    if walk.runs > 1:
        further = f"x += {walk.pitch}" + (f", w += {vectors}" if walk.joins_ends else "")
        lines.append(f"  for (int32_t run = 0; run < {walk.runs}; ++run, {further}) {{")
        depth = "    "
    splat, start_at = lanes.splat, "x"
    if (
        replace(lanes, packed=None) == MOVED_BYTES
        and (t := walk.tile).vectors + t.blocks < VECTOR_REGISTERS - 1
    ):
        splat = "SPLAT_FLIPPED"
        lines.append("  HOLD_FLIP;")
    if walk.pieces > 1:
        each = f"int32_t piece = 0; piece < {walk.pieces}; ++piece, part += {walk.piece}"
        lines += [f"{depth}const {lanes.element} *part = x;", f"{depth}for ({each}) {{"]
        depth, start_at = depth + "  ", "part"
    fetches = [] if start else _fetches(walk, lanes)
    further = f"at += {step}, w += {vectors}"
    if walk.fetches_next:
        fetches, further = ["MODEL_FETCH(next, 0);"], f"{further}, next += ahead"
    lines += [
        f"{depth}const {lanes.element} *at = {start_at};",
        f"{depth}MODEL_ROLLED",
        f"{depth}for (int32_t i = 0; i < {steps}; ++i, {further}) {{",
        *(f"{depth}  {fetch}" for fetch in fetches),
    ]
    for i, (name, element) in enumerate(halves):
        if i > 0:
            lines += [f"{depth}  }}", f"{depth}  {{"]
        elif lanes.has_halves:
            lines.append(f"{depth}  {{")
        lines += [
            *(f"{depth}  {load}" for load in packed),
            f"{depth}  " + defined("w", weights[name], "const "),
            f"{depth}  {lanes.vector} v;",
            *(
                f"{depth}  v = {splat}({offset_of('at', offset + element)}), {product};"
                for offset, product in zip(walk.offsets, products, strict=True)
            ),
        ]
    lines += [f"{depth}  }}"] * lanes.has_halves + [f"{depth}}}"]
    if walk.pieces > 1:
        depth = depth[2:]
        lines.append(f"{depth}}}")
    if walk.runs > 1:
        lines.append("  }")
    if form is not None:
        lines += [f"  {sum_name(0, b)} -= offset;" for b in range(blocks)]
    if not walk.joins_ends:
        return lines
    # The last vectors of weights have a byte of each word, and zeros.
    rows = range(walk.runs)
    words: list[str] = []
    for b in range(blocks):
        places = (
            offset_of("last", row * walk.steps * vectors + b * LANES_PER_VECTOR * step)
            for row in rows
        )
        loads = (f"{of(lanes.load_weights, b)}({place})" for place in places)
        words.append(_joined(loads))
    lines += ["  {", "    " + defined("w", words, "const "), f"    {lanes.vector} v;"]
    for offset, product in zip(walk.offsets, products, strict=True):
        joined = _joined(f"(uint32_t)ends[{offset + row * walk.pitch}]" for row in rows)
        lines.append(f"    v = ALL_I32((int32_t)({joined})), {product};")
    lines.append("  }")
    return lines


def _fetches(walk: Walk, lanes: Lanes) -> list[str]:
    """
    Return the C statements that prefetch the weights of later loop steps, or of the next panel.
    Return none if the weights of a panel are less than `MIN_FETCHED_BYTES`.
    """
    each = walk.tile.width * lanes.step * (4 if lanes is FLOATS else 1)
    if lanes.packed is not None:
        each = each * lanes.packed.bits // BYTE_BITS
    panel = each * walk.all_steps
    if panel < MIN_FETCHED_BYTES:
        return []
    ahead = min(panel, MAX_FETCH_DISTANCE // each * each)
    return [f"MODEL_FETCH(w, {ahead + at});" for at in range(0, each, CACHE_LINE)]


def _joined(parts: Iterable[str]) -> str:
    """
    Return the C expression of a 32-bit word with the bytes `parts`, C expressions below 256. The
    first is the lowest byte.
    """
    return " | ".join(f"{byte} << {8 * i}" if i else byte for i, byte in enumerate(parts))


def _full_vector(walk: Walk, position: int, block: int) -> str:
    is_half = walk.ends_in_half and block == walk.tile.blocks - 1
    return f"WHOLE({sum_name(position, block)})" if is_half else sum_name(position, block)


def _title(walk: Walk) -> str:
    t = walk.tile
    shape = f"{t.columns}" if t.rows == 1 else f"{t.rows} x {t.columns}"
    rows = f"{walk.runs} rows of " if walk.runs > 1 else ""
    rows += f"{walk.pieces} times " if walk.pieces > 1 else ""
    return f"/* {shape} positions by {t.width} outputs, {rows}{walk.steps} steps. */"


def sums_tile(walk: Walk, lanes: Lanes) -> tuple[str, str]:
    """
    Return the name and the text of a C function that computes the integer sums of a register tile
    and stores them as [positions, outputs].
    """
    name = f"sums_{_shape_name(walk)}{lanes.suffix}{_packed_name(lanes)}"
    head = (
        f"MODEL_TILE void {name}(const {lanes.element} *x, const int8_t *w, const int32_t *bias, "
    )
    wide = product_lines(walk, lanes) + _sum_stores(walk, "STORE_I32")
    head += f"int32_t *sums{ORDER_PARAMETER if walk.is_ordered else ''})"
    return _function(walk, name, head, wide, _small_sums(walk, lanes))


def _small_sums(walk: Walk, lanes: Lanes) -> list[str]:
    lines = sums_lines(walk, lanes)
    return lines if lanes.packed is None else unpacked_lines(walk, lanes, lines)


def _sum_stores(walk: Walk, store: str) -> list[str]:
    t, lanes = walk.tile, LANES_PER_VECTOR
    rows = (
        [f"{store}({offset_of('sums', p * t.width + b * lanes)}, {_full_vector(walk, p, b)})"
         for b in range(t.blocks)]
        for p in range(t.positions)
    )  # fmt: skip
    return [f"  {', '.join(stores)};" for stores in rows]


def _function(
    walk: Walk, name: str, head: str, wide: Sequence[str], narrow: Sequence[str]
) -> tuple[str, str]:
    """
    Return the name and the text of the C function of a tile with the signature `head`. The bodies
    are alternatives: `wide` for vectors of 16 lanes, `narrow` for fewer lanes; if it is empty, the
    function is only for vectors of 16 lanes.
    """
    both = [f"#if {HAS_16_LANES}", *wide, "#else", *narrow, "#endif"] if narrow else wide
    if walk.is_long:
        both = narrow
    if walk.is_ordered:
        both = ["  (void)order;", *both]
    return name, "\n".join([_title(walk), head, "{", *both, "}", ""])


def shifting_tile(walk: Walk, stores: Stores, lanes: Lanes) -> tuple[str, str]:
    """
    Return the name and the text of a C function that computes the integer sums of a register tile,
    applies the output stage (residual, multiplier, shift, clamp) and stores the results.
    """
    name = f"tile_{_shape_name(walk)}_to_{stores.row}_{stores.column}"
    name += output_name(stores, lanes.suffix) + _packed_name(lanes)
    lines = product_lines(walk, lanes)
    lines += output_lines(walk.tile, stores, lambda p, b: _full_vector(walk, p, b))
    parameters = output_parameters(stores, lanes.element)
    parameters += ORDER_PARAMETER if walk.is_ordered else ""
    head = f"MODEL_TILE void {name}({parameters})"
    narrow = [] if lanes.has_halves else _narrow_lines(walk, stores, lanes)
    return _function(walk, name, head, lines, narrow)


def _packed_name(lanes: Lanes) -> str:
    return "" if lanes.packed is None else f"_{lanes.packed.bits}_bits"


def output_name(stores: Stores, suffix: str = "") -> str:
    """
    Return the end of the name of a C function with an output stage. `suffix` names the elements of
    the input.
    """
    name = f"_residual{stores.residual_kind}" if stores.has_residual else ""
    name += "_wide" if stores.has_factors and not stores.has_word_factors else ""
    name += _scaled(stores) + ("_part" if stores.is_masked else "")
    name += ("_low" if stores.low else "") + ("_high" if stores.high else "") + suffix
    return name + {"I8": "", "U8": "_unsigned"}.get(stores.kind, f"_{stores.bits}")


def output_parameters(
    stores: Stores, element: str, source: str = "x", *, has_weights: bool = True
) -> str:
    """
    Return the C parameters of a function with an output stage. The first is the pointer `source` to
    elements of the C type `element`.
    """
    weights = "const int8_t *w, " if has_weights else ""
    array = "const int32_t *restrict"
    parameters = f"const {element} *{source}, {weights}{array} bias, {stores.result}_t *y"
    if stores.has_residual:
        kind = f"const int{stores.residual_bits}_t"
        parameters += f", {kind} *residual, {''.join(stores.alignment)}"
    if stores.scale_bits:
        parameters += f", {array} multipliers, int{stores.scale_bits}_t after"
    parameters += f", {''.join(stores.shift)}"
    parameters += ", int32_t low" if stores.low else ""
    parameters += ", int32_t high" if stores.high else ""
    return parameters + (", int32_t outputs" if stores.is_masked else "")


def output_lines(tile: Tile, stores: Stores, sums: Callable[[int, int], str]) -> list[str]:
    """
    Return the C statements that apply the output stage (residual, multiplier, shift, clamp) to
    vectors of 16 integer sums and store the results. `sums` returns the C expression of the vector
    of a position and a block of 16 outputs of `tile`.
    """
    t, bits, lines = tile, stores.residual_bits, list[str]()
    packed = t.vectors // stores.packed * stores.packed if stores.packed else 0
    lines += _bounds(stores, "model_i32v", "I32") if packed < t.vectors else []
    lines += _bounds(stores, "model_packed", stores.kind) if packed else []
    for vector, array, is_used in (
        ("m", "multipliers", stores.scale_bits),
        ("f", "factors", stores.has_factors),
        ("r", "shifts", stores.has_shifts),
    ):
        lines += [
            f"  const model_i32v {vector}{b} = LOAD_I32({offset_of(array, b * LANES_PER_VECTOR)});"
            for b in range(t.blocks if is_used else 0)
        ]
    masks = ["-1"] * t.blocks
    if stores.is_masked:
        masks, declared = _masks(t, "MASK")
        lines.append(declared)
    group: list[tuple[int, str]] = []
    for p in range(t.positions):
        base = stores.offset(t, p)
        for b in range(t.blocks):
            s, to = sums(p, b), base + b * LANES_PER_VECTOR
            if stores.has_residual:
                at = offset_of("residual", to)
                load = f"LOAD_I{bits}({at})"
                if stores.is_masked:
                    load = f"LOAD_SOME_I{bits}({at}, {masks[b]})"
                widen = "WIDEN" if bits == 8 else "WIDEN_I16"
                aligned = f"* f{b}" if stores.has_factors else "<< left_shift"
                total = f"{s} + ({widen}({load}) {aligned})"
                if stores.has_word_factors:
                    total = f"DOT_WORDS({s}, {widen}({load}), f{b})"
                lines.append(f"  const model_i32v t{p}_{b} = {total};")
                s = f"t{p}_{b}"
            right = f"r{b}" if stores.has_shifts else "shift"
            value = (
                f"({s} + ({s} >> {right} & 1)) >> {right}" if stores.is_even else f"{s} >> {right}"
            )
            if stores.scale_bits:
                value = f"SCALE_{stores.scale_bits}({s}, m{b}, after, shift)"
            if p * t.blocks + b >= packed:
                store, value = f"STORE_{stores.kind}", stores.clamped(value, "I32")
                lines.append(f"  {store}({offset_of('y', to)}, {value}, {masks[b]});")
                continue
            group.append((to, value))
            if len(group) == stores.packed:
                lines += _packed_stores(stores, f"packed{p}_{b}", group)
                group.clear()
    return lines


def _bounds(stores: Stores, vector: str, kind: str) -> list[str]:
    bounds = (("least", "low", stores.low), ("most", "high", stores.high))
    return [
        f"  const {vector} {name}_{kind.lower()} = ALL_{kind}({bound});"
        for name, bound, is_used in bounds
        if is_used
    ]


def _packed_stores(stores: Stores, name: str, group: Sequence[tuple[int, str]]) -> list[str]:
    values = ", ".join(value for _, value in group)
    value = stores.clamped(f"PACKED_{stores.kind}({values})", stores.kind)
    lines = [f"  const model_packed {name} = {value};"]
    places = [to for to, _ in group]

    def stored(first: int, count: int) -> None:
        """Store `count` vectors from vector `first`, together if their places are adjacent."""
        to = places[first]
        if places[first : first + count] == [to + i * LANES_PER_VECTOR for i in range(count)]:
            macro = PART_STORES[len(places) // count]
            part = f", {first // count}" if count < len(places) else ""
            lines.append(f"  {macro}({offset_of('y', to)}, {name}{part});")
        else:
            for half in (first, first + count // 2):
                stored(half, count // 2)

    stored(0, len(places))
    return lines


def _narrow_lines(walk: Walk, stores: Stores, lanes: Lanes) -> list[str]:
    t = walk.tile
    residual = f"residual, {stores.alignment[1]}, " if stores.has_residual else ""
    residual += "multipliers, after, " if stores.scale_bits else ""
    lowest = -(1 << (stores.bits - 1)) if stores.is_signed else 0
    low = "low" if stores.low else str(lowest)
    high = "high" if stores.high else str(lowest + (1 << stores.bits) - 1)
    outputs = "outputs" if stores.is_masked else str(t.width)
    return [
        f"  int32_t sums[{t.positions * t.width}];",
        *_small_sums(walk, lanes),
        f"  narrow_sums_{_narrow_kind(stores)}(sums, {t.positions}, {t.width}, y, {t.columns}, "
        f"{stores.row}, {stores.column}, {residual}{stores.shift[1]}, {low}, {high}, {outputs});",
    ]


def _narrow_kind(stores: Stores) -> str:
    kind = stores.result
    kind += f"_residual{stores.residual_kind}" if stores.has_residual else ""
    return kind + _scaled(stores)


def _scaled(stores: Stores) -> str:
    even = "_even" if stores.is_even else ""
    if stores.has_shifts:
        return f"_shifted{even}"
    return {0: even, 32: "_scaled", 64: "_scaled_wide"}[stores.scale_bits]


def use_narrow(kernels: Kernels, stores: Stores) -> None:
    """
    Add the C function that applies the output stage to an array of integer sums and stores the
    results. Processors with vectors of fewer than 16 lanes use it.
    """
    cast = "(int64_t)" if stores.scale_bits == 64 else ""
    scale = f"const int32_t *restrict multipliers, int{stores.scale_bits}_t after, "
    skip = f"const int{stores.residual_bits}_t *residual, {''.join(stores.alignment)}, "
    factor = "factors[o]" if stores.has_factors else "(1 << left_shift)"
    by = "shifts[o]" if stores.has_shifts else "shift"
    times = f" * {cast}multipliers[o] + after" if stores.scale_bits else ""
    kernels.use(
        "narrow_sums",
        NAME=_narrow_kind(stores),
        RESULT=f"{stores.result}_t",
        RESIDUAL=skip if stores.has_residual else "",
        SHIFT="".join(stores.shift),
        BY=by,
        SCALE=scale if stores.scale_bits else "",
        ADD=f" + (residual[at + o] * {factor})" if stores.has_residual else "",
        TIMES=f" + (sum >> {by} & 1)" if stores.is_even else times,
        NEON="".join(f"      {line}\n" for line in neon_output(stores)),
    )


def _masks(tile: Tile, macro: str) -> tuple[list[str], str]:
    names = [f"mask{b}" for b in range(tile.blocks)]
    values = ", ".join(
        f"{name} = {macro}({'outputs' if b == 0 else f'outputs - {b * LANES_PER_VECTOR}'})"
        for b, name in enumerate(names)
    )
    return names, f"  const unsigned short {values};"


def float_tile(
    walk: Walk, stores: Stores, *, has_clamp: bool, for_arm: FinishedTile | None = None
) -> tuple[str, str]:
    """
    Return the name and the text of a C function that computes the float sums of a register tile,
    adds a residual, clamps (if `has_clamp`) and stores the results. `for_arm` is the tile if it is
    for 64-bit Arm.
    """
    t = walk.tile
    name = f"tile_f32_{_shape_name(walk)}_to_{stores.row}_{stores.column}"
    name += ("_residual" if stores.has_residual else "") + ("_clamped" if has_clamp else "")
    name += "_part" if stores.is_masked else ""
    name += f"_{for_arm.rest}" if for_arm is not None and for_arm.rest else ""
    parameters = "const float *x, const float *w, const float *bias, float *y"
    parameters += ", const float *residual" if stores.has_residual else ""
    parameters += ", float low, float high" if has_clamp else ""
    parameters += ", int32_t outputs" if stores.is_masked else ""
    parameters += ", uintptr_t next, int32_t ahead" if walk.fetches_next else ""
    lines = product_lines(walk, FLOATS)
    if has_clamp:
        lines.append("  const model_f32v least = ALL_F32(low), most = ALL_F32(high);")
    masks: list[str] = []
    if stores.is_masked:
        masks, declared = _masks(t, "MASK_F32")
        lines.append(declared)
    for p in range(t.positions):
        for b in range(t.blocks):
            s, to = sum_name(p, b), stores.offset(t, p) + b * LANES_PER_VECTOR
            if stores.has_residual:
                at = offset_of("residual", to)
                load = f"LOAD_SOME_F32({at}, {masks[b]})" if masks else f"LOAD_F32({at})"
                lines.append(f"  {s} += {load};")
            if has_clamp:
                lines.append(f"  {s} = AT_LEAST({s}, least), {s} = AT_MOST({s}, most);")
            store, mask = ("STORE_SOME_F32", f", {masks[b]}") if masks else ("STORE_F32", "")
            lines.append(f"  {store}({offset_of('y', to)}, {s}{mask});")
    bounds = "low, high" if has_clamp else "-INFINITY, INFINITY"
    narrow = (
        for_arm.lines()
        if for_arm is not None
        else [
            f"  float sums[{t.positions * t.width}];",
            *sums_lines(walk, FLOATS),
            f"  finish_f32(sums, {t.positions}, {t.width}, y, {t.columns}, {stores.row}, "
            f"{stores.column}, {'residual' if stores.has_residual else '0'}, {bounds}, "
            f"{'outputs' if stores.is_masked else t.width});",
            *(["  (void)next, (void)ahead;"] if walk.fetches_next else []),
        ]
    )
    return _function(walk, name, f"MODEL_TILE void {name}({parameters})", lines, narrow)


def products_tile(walk: Walk) -> tuple[str, str]:
    """
    Return the name and the text of a C function that computes the float sums of a register tile
    without bias and stores them as [positions, outputs].
    """
    name = f"products_f32_{_shape_name(walk)}"
    head = f"MODEL_TILE void {name}(const float *x, const float *w, float *sums)"
    wide = product_lines(walk, FLOATS, "{0}") + _sum_stores(walk, "STORE_F32")
    narrow = [
        f"#if {NEON}", *neon_floats.sums_lines(walk), "#else",
        *sums_lines(walk, FLOATS, "0"), "#endif",
    ]  # fmt: skip
    return _function(walk, name, head, wide, narrow)


def _shape_name(walk: Walk) -> str:
    t = walk.tile
    shape = f"{t.rows}x{t.columns}x{t.blocks}_{walk.runs}x{walk.steps}"
    kind = ("_half" if walk.ends_in_half else "") + ("_joined" if walk.joins_ends else "")
    kind += f"_{walk.pieces}x{walk.piece}" if walk.pieces > 1 else ""
    kind += ("_ahead" if walk.fetches_next else "") + ("_long" if walk.is_long else "")
    kind += "_ordered" if walk.is_ordered else ""
    return f"{shape}_{walk.pitch}_{walk.row}_{walk.column}{kind}"
