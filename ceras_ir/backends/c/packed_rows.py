"""
Print products of a single position with packed weights, which narrow vectors unpack in registers.

A field of the packed words is a weight plus half the range, so it is not negative. The sum of the
products with fields exceeds the sum with weights by that half times the sum of the inputs, which is
computed once per tile. Fields are small: without a dot-product instruction, x86 adds the products
of several steps in 16 bits.
"""

from collections.abc import Sequence

from ceras_ir.backends.c.constants import QUADS
from ceras_ir.backends.c.packed_words import BYTES, VECTOR_WORDS, WORD_BYTES, Format
from ceras_ir.backends.c.register_tiles import (
    BYTE_LANES,
    CONDITION,
    LANES_PER_VECTOR,
    NEON,
    Lanes,
    Walk,
)
from ceras_ir.dialects.quant import BYTE_BITS

MAX_JOINED_STEPS = 4
"""The maximum number of steps of which the products are added in 16 bits."""

MAX_PAIR, MAX_INPUT = (1 << 15) - 1, 255
"""The maximum sum of products in 16 bits, and the maximum input byte."""

MIN_FETCHED_PANEL, FETCHED_BYTES = 1 << 15, 1 << 12
"""The minimum bytes of a panel that is prefetched, and the distance in bytes."""

BLOCK_BYTES = VECTOR_WORDS * WORD_BYTES
"""The bytes of the packed words that have equal shifts."""


def joined_steps(bits: int) -> int:
    """
    Return the number of steps of which x86 adds the products in 16 bits, two bytes of each step; 0
    if even the products of a step exceed 16 bits.
    """
    return min(MAX_PAIR // (2 * MAX_INPUT * ((1 << bits) - 1)), MAX_JOINED_STEPS)


def unpacking(bits: int) -> str:
    """Return the preprocessor condition of vectors that unpack weights of `bits` bits."""
    wide = CONDITION if joined_steps(bits) else f"({CONDITION} && !{QUADS})"
    return f"({wide} || {NEON})"


def unpacked_lines(walk: Walk, lanes: Lanes, otherwise: Sequence[str]) -> list[str]:
    """
    Return C statements that compute the array `sums` of a tile with a single position from the
    packed weights `w`. Processors that do not unpack them in registers run the statements
    `otherwise`.
    """
    form = lanes.packed
    assert form is not None
    return [
        f"#if {unpacking(form.bits)}",
        f"  const int32_t extra = {1 << (form.bits - 1)} * {_total(walk, lanes)};",
        f"  for (int32_t o = 0; o < {walk.tile.width}; o += {form.words * LANES_PER_VECTOR}) {{",
        f"    const int8_t *const block = w + o / {form.words * LANES_PER_VECTOR} * "
        f"{form.packed_words * BLOCK_BYTES};",
        f"#if {CONDITION}",
        *_groups(walk, lanes, form, 8),
        "#else",
        *_groups(walk, lanes, form, 4),
        "#endif",
        "  }",
        "#else",
        *otherwise,
        "#endif",
    ]


def _total(walk: Walk, lanes: Lanes) -> str:
    """Return the C expression of the sum of the inputs as the products read them."""
    sizes = f"{walk.runs}, {walk.pitch}, {walk.pieces}, {walk.piece}, {walk.steps * lanes.step}"
    arm, others = (128 if is_moved else 0 for is_moved in (lanes.is_unsigned, _is_moved(lanes)))
    flip = f"{NEON} ? {arm} : {others}" if arm != others else str(arm)
    return f"packed_row_total(x, {sizes}, {flip})"


def _is_moved(lanes: Lanes) -> bool:
    return lanes.splat != BYTE_LANES.splat


MAX_SUMS = {8: 4, 4: 16}
"""The sums in registers by lanes of a vector. 8 lanes have 16 registers, also for 16-bit sums."""


def _groups(walk: Walk, lanes: Lanes, form: Format, width: int) -> list[str]:
    """
    Return the loops over the outputs of a unit of packed words for vectors of `width` lanes. A
    group of sums has all fields of some adjacent vectors.
    """
    parts = VECTOR_WORDS // width
    together = max(min(MAX_SUMS[width] // form.words, parts), 1)
    step = width * WORD_BYTES
    sums = [(part, word) for part in range(together) for word in range(form.words)]
    kind = "256" if width == 8 else "128"
    vector = f"packed_{kind}"
    splat = f"{lanes.splat}_256(at)"
    if width == 4:
        splat = "NEON_FLIPPED(NEON_WORD(at))" if lanes.is_unsigned else "NEON_WORD(at)"
        value = f"const int8x16_t v = {splat};"
    else:
        value = f"const model_256 v = {splat};"
    distance = walk.tile.width * lanes.step * form.bits // BYTE_BITS

    def products(add: str, total: str) -> list[str]:
        """Return the statements that add a step to the sums with names that begin with `total`."""
        lines = ["{", f"  {value}"]
        for part in range(together):
            loads = ", ".join(
                f"p{i} = ({vector})ROW_LOAD_{kind}(from + {i * BLOCK_BYTES + part * step})"
                for i in range(form.packed_words)
            )
            lines += ["  {", f"    const {vector} {loads};"]
            for word in range(form.words):
                to = f"{total}{part}_{word}"
                field = f"ROW_FIELD_{kind}({form.fields(word, BYTES)})"
                lines.append(f"    {to} = {add}({to}, v, {field});")
            lines.append("  }")
        return [*lines, f"  at += {lanes.step}, from += {distance};", "}"]

    def loop(start: str, steps: int, body: Sequence[str]) -> list[str]:
        ahead = f" + {steps - 1}" if steps > 1 else ""
        return [
            f"for ({start}; i{ahead} < {walk.steps}; i += {steps}) {{",
            *(f"  {line}" for line in body),
            "}",
        ]

    def fetches(steps: int) -> list[str]:
        """
        Return the statements of the first group that prefetch the weights of all groups: each group
        reads a part of a cache line of a step, which main memory delivers slowly.
        """
        if width == 4 or distance * walk.all_steps < MIN_FETCHED_PANEL:
            return []
        lines = (f"MODEL_FETCH(from, {FETCHED_BYTES + i});" for i in range(0, steps * distance, 64))
        return ["if (to == 0) {", *(f"  {line}" for line in lines), "}"]

    inner = loop("int32_t i = 0", 1, products(f"ROW_DOT_{kind}", "s"))
    if width == 8 and (count := joined_steps(form.bits)):
        zeros = ", ".join(f"t{p}_{w} = ALL_256(0)" for p, w in sums)
        joined = [*fetches(count), f"model_256 {zeros};"]
        for _ in range(count):
            joined += products("ROW_JOINED", "t")
        joined += [f"s{p}_{w} = WIDEN_SUMS_256(s{p}_{w}, t{p}_{w});" for p, w in sums]
        rest = loop("", 1, products("DOT_PAIRS_256", "s")) if count > 1 else []
        inner = [f"#if {QUADS}", "int32_t i = 0;", *loop("", count, joined), *rest]
        inner += [
            "#else",
            *loop("int32_t i = 0", 1, [*fetches(1), *products("DOT_256", "s")]),
            "#endif",
        ]
    body = [
        f"packed_sum_{kind} {', '.join(f's{p}_{w} = start' for p, w in sums)};",
        "const int8_t *from = first;",
        f"for (int32_t run = 0; run < {walk.runs}; ++run) {{",
        f"  for (int32_t piece = 0; piece < {walk.pieces}; ++piece) {{",
        f"    const {lanes.element} *at = x + run * {walk.pitch} + piece * {walk.piece};",
        *(f"    {line}" for line in inner),
        "  }",
        "}",
        *(
            f"ROW_STORE_{kind}(sums + to + {LANES_PER_VECTOR * w + width * p}, s{p}_{w}, "
            f"bias + to + {LANES_PER_VECTOR * w + width * p});"
            for p, w in sums
        ),
    ]
    return [
        f"    const packed_sum_{kind} start = ROW_ALL_{kind}(-extra);",
        f"    for (int32_t part = 0; part < {parts}; part += {together}) {{",
        f"      const int8_t *const first = block + part * {step};",
        f"      const int32_t to = o + part * {width};",
        *(f"      {line}" for line in body),
        "    }",
    ]
