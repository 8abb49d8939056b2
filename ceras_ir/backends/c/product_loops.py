"""
The loops of a register tile over what is multiplied, as lines of C: every sum has a name.

A tile walks `runs` rows of `steps` steps; a step takes four bytes (two words, one float) of each
position, which lie at literal distances, times one vector of weights per 16 outputs.
"""

from collections.abc import Iterable, Sequence

from ceras_ir.backends.c.register_tiles import LANES, VECTOR_REGISTERS
from ceras_ir.backends.c.walk import FLOATS, MOVED_BYTES, Lanes, Walk

LEAST_FETCHED = 4 * 1024
"""
Bytes of a panel of weights from which on those to come are asked for. Processors see by themselves
what follows, but only within a page of 4 KiB, and late where each byte serves a few products.
"""
FETCHED = 10 * 1024
"""By how many bytes those are ahead, at most: what a third of the first cache holds."""
CACHE_LINE = 64

HALF, HALF_VECTOR = "HALF_", "model_i32h"
"""Begins what a macro is called for vectors of 8 lanes, and their type."""


def sum_name(position: int, block: int) -> str:
    return f"s{position}_{block}"


def offset_of(pointer: str, offset: int) -> str:
    return f"{pointer} + {offset}" if offset else pointer


def product_lines(walk: Walk, lanes: Lanes, start: str = "") -> list[str]:
    """The loops over k; sums start at `bias`, or at an expression."""
    step, blocks, positions = lanes.step, walk.tile.blocks, range(walk.tile.positions)
    half = [walk.ends_in_half and b == blocks - 1 for b in range(blocks)]

    def defined(prefix: str, values: Sequence[str], qualifier: str = "") -> str:
        """One vector per 16 outputs."""
        pairs = [f"{prefix}{b} = {value}" for b, value in enumerate(values)]
        last = f"{qualifier}{HALF_VECTOR} {pairs.pop()};" if half[-1] else ""
        whole = f"{qualifier}{lanes.vector} {', '.join(pairs)};" if pairs else ""
        return f"{whole} {last}".strip()

    def of(what: str, b: int) -> str:
        return HALF * half[b] + what

    first = [start or f"{of(lanes.load, b)}({offset_of('bias', b * LANES)})" for b in range(blocks)]
    lines = [
        "  " + defined(f"s{p}_", first if p == 0 else [sum_name(0, b) for b in range(blocks)])
        for p in positions
    ]
    weights = [
        f"{of(lanes.load_weights, b)}({offset_of('w', b * LANES * step)})" for b in range(blocks)
    ]
    products = [
        ", ".join(
            f"{sum_name(p, b)} = {of(lanes.dot, b)}({sum_name(p, b)}, v, w{b})"
            for b in range(blocks)
        )
        for p in positions
    ]
    depth, vectors, steps = "  ", walk.tile.width * step, walk.steps
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
    if lanes is MOVED_BYTES and (t := walk.tile).vectors + t.blocks < VECTOR_REGISTERS - 1:
        splat = "SPLAT_FLIPPED"
        lines.append("  HOLD_FLIP;")
    if walk.pieces > 1:
        each = f"int32_t piece = 0; piece < {walk.pieces}; ++piece, part += {walk.piece}"
        lines += [f"{depth}const {lanes.element} *part = x;", f"{depth}for ({each}) {{"]
        depth, start_at = depth + "  ", "part"
    lines += [
        f"{depth}const {lanes.element} *at = {start_at};",
        f"{depth}MODEL_ROLLED",
        f"{depth}for (int32_t i = 0; i < {steps}; ++i, at += {step}, w += {vectors}) {{",
        *(f"{depth}  {fetch}" for fetch in ([] if start else _fetches(walk, lanes))),
        f"{depth}  " + defined("w", weights, "const "),
        f"{depth}  {lanes.vector} v;",
        *(
            f"{depth}  v = {splat}({offset_of('at', offset)}), {product};"
            for offset, product in zip(walk.offsets, products, strict=True)
        ),
        f"{depth}}}",
    ]
    if walk.pieces > 1:
        depth = depth[2:]
        lines.append(f"{depth}}}")
    if walk.runs > 1:
        lines.append("  }")
    if not walk.joins_ends:
        return lines
    # The last vectors of weights have a byte of each word, and zeros.
    rows = range(walk.runs)
    words: list[str] = []
    for b in range(blocks):
        places = (offset_of("last", row * walk.steps * vectors + b * LANES * step) for row in rows)
        loads = (f"{of(lanes.load_weights, b)}({place})" for place in places)
        words.append(_joined(loads))
    lines += ["  {", "    " + defined("w", words, "const "), f"    {lanes.vector} v;"]
    for offset, product in zip(walk.offsets, products, strict=True):
        ends = _joined(f"(uint32_t)ends[{offset + row * walk.pitch}]" for row in rows)
        lines.append(f"    v = ALL_I32((int32_t)({ends})), {product};")
    lines.append("  }")
    return lines


def _fetches(walk: Walk, lanes: Lanes) -> list[str]:
    """Statements that ask for weights of later steps, or of the next panel."""
    each = walk.tile.width * lanes.step * (4 if lanes is FLOATS else 1)
    panel = each * walk.steps * walk.pieces * walk.runs
    if panel < LEAST_FETCHED:
        return []
    ahead = min(panel, FETCHED // each * each)
    return [f"MODEL_FETCH(w, {ahead + at});" for at in range(0, each, CACHE_LINE)]


def _joined(parts: Iterable[str]) -> str:
    """A word of bytes, which are expressions of words whose other bytes are zero."""
    return " | ".join(f"{byte} << {8 * i}" if i else byte for i, byte in enumerate(parts))
