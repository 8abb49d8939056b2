"""
Order the steps of a register tile so that sums of two or four products fit 16 bits.

x86 processors without a dot-product instruction multiply unsigned by signed bytes and add two
adjacent products, saturated to 16 bits. Weights are constants, so the compiler knows which sums can
never saturate. If sums of four products fit too, two steps are multiplied together. Sums are exact
for all inputs, and equal on all processors. Weights keep their layout; a list per vector of outputs
has the order of steps.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR, Lanes, Walk

HEADER = 2
"""Numbers before the steps of a vector of outputs."""

MAX_DISTANCE = 12
"""
The maximum distance of two steps that are multiplied together. Weights at larger distances would
not be prefetched.
"""

FETCHED_STEPS = 16
"""The number of steps by which prefetched weights are ahead of products."""

_LARGEST_INPUT, _LARGEST_SUM, _MAX_STEPS = 255, (1 << 15) - 1, (1 << 16) - 1


def has_quads(walk: Walk) -> bool:
    """Return whether numbers of 16 bits can name the steps of a tile."""
    return walk.all_steps <= _MAX_STEPS


def order_size(walk: Walk) -> int:
    """Return the length of the list of a vector of outputs."""
    return HEADER + walk.all_steps


def step_places(walk: Walk, step: int) -> NDArray[np.int32]:
    """Return the distance of the input of each step from the start of the window, in elements."""
    runs = np.arange(walk.runs)[:, None, None] * walk.pitch
    pieces = np.arange(walk.pieces)[:, None] * walk.piece
    return (runs + pieces + np.arange(walk.steps) * step).astype(np.int32).reshape(-1)


def quad_order(packed: NDArray[np.generic]) -> NDArray[np.uint16]:
    """
    Return the order of steps for weights [panels, steps, outputs, 4], as [panels, vectors of
    outputs, `HEADER` + steps].

    A list begins with two numbers: n, and m >= n. The first n steps are multiplied two at a time,
    and sums of four products fit 16 bits. In the steps before m, sums of two products do; in the
    last ones, not all.
    """
    panels, steps, width, _ = packed.shape
    vectors = width // LANES_PER_VECTOR
    lanes = packed.reshape(panels, steps, vectors, 2 * LANES_PER_VECTOR, 2).astype(np.int16)
    lanes = lanes.transpose(0, 2, 1, 3, 4).reshape(panels * vectors, steps, -1, 2)
    # An input can be 0, so positive and negative products are added separately.
    sums = np.concatenate([np.maximum(lanes, 0).sum(-1), np.maximum(-lanes, 0).sum(-1)], axis=-1)
    most = _LARGEST_SUM // _LARGEST_INPUT
    is_pair: NDArray[np.bool_] = np.less_equal(sums.max(axis=-1), most)
    partner = _partners(sums.astype(np.int16), is_pair, most)
    at = np.arange(steps, dtype=np.intp)
    is_quad = partner >= 0
    first = np.where(is_quad, np.minimum(at, partner), at)
    key = np.where(is_quad, 0, np.where(is_pair, 1, 2)) * steps + first
    order = np.argsort(key, axis=1, kind="stable")
    counts = [is_quad.sum(1), (is_quad | is_pair).sum(1)]
    listed = np.concatenate([np.stack(counts, 1), order], axis=1).astype(np.uint16)
    return listed.reshape(panels, vectors, HEADER + steps)


def _partners(sums: NDArray[np.int16], is_pair: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    """
    Return the step with which each step [vectors, steps] is multiplied, or -1. `sums` [vectors,
    steps, lanes] are sums of weights of equal sign, and `most` is their maximum.
    """
    steps = is_pair.shape[1]
    partner = np.full(is_pair.shape, -1)
    free = is_pair.copy()
    for distance in range(1, min(MAX_DISTANCE, steps - 1) + 1):
        both = free[:, :-distance] & free[:, distance:]
        vector, step = np.nonzero(both)
        fits = (sums[vector, step] + sums[vector, step + distance] <= most).all(-1)
        vector, step = vector[fits], step[fits]
        # A step can be in two of these pairs: disjoint pairs are first.
        for parity in (0, 1):
            chosen = step // distance % 2 == parity
            v, s = vector[chosen], step[chosen]
            still = free[v, s] & free[v, s + distance]
            v, s = v[still], s[still]
            partner[v, s], partner[v, s + distance] = s + distance, s
            free[v, s] = free[v, s + distance] = False
    return partner


def quads_name(positions: int, lanes: Lanes) -> str:
    """Return the name of the C function for a number of positions."""
    return f"quads_{positions}{'_moved' if lanes.splat != 'SPLAT' else ''}"


def quads_function(positions: int, lanes: Lanes) -> str:
    """
    Return the text of a C function that computes integer sums for `positions` positions and 16
    outputs in the order of `quad_order`.
    """
    each = range(positions)

    def splat(at: str, p: int) -> str:
        place = at if not p else f"{at} + column" if p == 1 else f"{at} + {p} * column"
        return f"{lanes.splat}_256({place})"

    def loop(end: str, step: int, body: Sequence[str]) -> list[str]:
        advance = "++i, ++at" if step == 1 else f"i += {step}, at += {step}"
        head = [f"  const {lanes.element} *x{j} = x + places[at[{j}]];" for j in range(step)]
        head += [f"  const int8_t *w{j} = w + (at[{j}] * pitch);" for j in range(step)]
        return [
            "  MODEL_ROLLED",
            f"  for (; i < {end}; {advance}) {{",
            *(f"  {line}" for line in (*head, *body)),
            f"    {held_sums(positions)}",
            "  }",
        ]

    weights = [
        f"  const model_256 a{j} = LOAD_256(w{j}), b{j} = LOAD_256(w{j} + 32);" for j in (0, 1)
    ]
    fetches = [f"  MODEL_FETCH(w{j}, {FETCHED_STEPS} * pitch);" for j in (0, 1)]
    quads = [
        f"  v = {splat('x0', p)}, u = {splat('x1', p)}, "
        f"s{p}_0 = DOT_QUADS_256(s{p}_0, v, a0, u, a1), "
        f"s{p}_1 = DOT_QUADS_256(s{p}_1, v, b0, u, b1);"
        for p in each
    ]
    pairs = [
        f"  v = {splat('x0', p)}, s{p}_0 = DOT_PAIRS_256(s{p}_0, v, a0), "
        f"s{p}_1 = DOT_PAIRS_256(s{p}_1, v, b0);"
        for p in each
    ]
    sums = ["s0_0 = LOAD_256(bias)", "s0_1 = LOAD_256(bias + 8)"]
    sums += [f"s{p}_{b} = s0_{b}" for p in each[1:] for b in (0, 1)]
    stores = (("sums", p, "width") for p in each)
    rows = [to if not p else f"{to} + {p} * {by}" for to, p, by in stores]
    lines = [
        f"/* {positions} positions, `column` apart, by 16 of `width` outputs. `order` lists "
        "`steps` steps;\n * their input begins at `places`. */",
        f"MODEL_TILE void {quads_name(positions, lanes)}(const {lanes.element} *x, "
        "const int32_t *places, int32_t steps,\n    int32_t column, const int8_t *w, "
        "int32_t width, const uint16_t *order, const int32_t *bias,\n    int32_t *sums)",
        "{",
        *(["  (void)column;"] if positions == 1 else []),
        "  const int32_t quads = order[0], pairs = order[1], pitch = 4 * width;",
        f"  const uint16_t *at = order + {HEADER};",
        f"  model_256 {', '.join(sums)};",
        "  int32_t i = 0;",
        *loop("quads", 2, [*fetches, *weights, "  model_256 v, u;", *quads]),
        *loop("pairs", 1, [weights[0], "  model_256 v;", *pairs]),
        *loop("steps", 1, [f"  {line}" for line in half_lines(positions, lanes, "x0", "w0")]),
        *(
            f"  STORE_256({row}, s{p}_0), STORE_256({row} + 8, s{p}_1);"
            for p, row in enumerate(rows)
        ),
        "}",
    ]
    return "\n".join([*lines, ""])


def held_sums(positions: int) -> str:
    """
    Return the C statement that keeps the sums in registers at the end of a step: gcc would keep
    some in memory, and each sum waits for the previous one.
    """
    sums = ", ".join(f'"+x"(s{p}_{b})' for p in range(positions) for b in (0, 1))
    return f'__asm__("" : {sums});'


def half_lines(positions: int, lanes: Lanes, x: str, w: str) -> list[str]:
    """
    Return C statements that add the products of a step to the sums of 16 outputs: first of even
    bytes, then of odd bytes, so that few vectors of weights are needed at a time. `x` and `w` are C
    expressions of the addresses.
    """
    lines: list[str] = []
    for half in ("EVEN", "ODD"):
        lines.append("{")
        lines.append(
            f"  const model_256 a = {half}_I8(LOAD_256({w})), b = {half}_I8(LOAD_256({w} + 32));"
        )
        lines.append("  model_256 v;")
        for p in range(positions):
            place = x if not p else f"{x} + column" if p == 1 else f"{x} + {p} * column"
            lines.append(
                f"  v = {half}_U8({lanes.splat}_256({place})), "
                f"s{p}_0 = DOT_WORDS_256(s{p}_0, v, a), s{p}_1 = DOT_WORDS_256(s{p}_1, v, b);"
            )
        lines.append("}")
    return lines
