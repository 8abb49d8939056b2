"""
Order the steps of a register tile so that sums of two or four products fit 16 bits.

x86 processors without a dot-product instruction multiply unsigned by signed bytes and add two
adjacent products, saturated to 16 bits. Weights are constants, so the compiler knows which sums can
never saturate. If sums of four products fit too, two steps are multiplied together. Sums are exact
for all inputs, and equal on all processors. Only these processors have weights in this order; a
list per vector of outputs has the indices of the inputs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.register_tiles import Lanes, Walk

LANES = 8
"""The number of outputs that share an order: the lanes of a vector of 256 bits."""

MOST_POSITIONS = 8
"""The maximum number of positions of a call: sums, weights and inputs fit 16 registers."""

HEADER = 2
"""Numbers before the inputs of a vector of outputs."""

MAX_DISTANCE = 16
"""The maximum distance of two steps that are multiplied together; it limits the compile time."""

FETCHED_BYTES = 1024
"""The bytes by which prefetched weights are ahead of products."""

_LARGEST_INPUT, _LARGEST_SUM, _MAX_PLACE = 255, (1 << 15) - 1, (1 << 16) - 1


def has_quads(walk: Walk, step: int) -> bool:
    """Return whether numbers of 16 bits can name the steps of a tile and their inputs."""
    return walk.all_steps <= _MAX_PLACE and int(step_places(walk, step).max()) <= _MAX_PLACE


def order_size(walk: Walk) -> int:
    """Return the length of the list of a vector of outputs."""
    return HEADER + walk.all_steps


def step_places(walk: Walk, step: int) -> NDArray[np.int64]:
    """Return the distance of the input of each step from the start of the window, in elements."""
    runs = np.arange(walk.runs)[:, None, None] * walk.pitch
    pieces = np.arange(walk.pieces)[:, None] * walk.piece
    return (runs + pieces + np.arange(walk.steps) * step).reshape(-1)


def _by_vectors(packed: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return weights [panels, steps, outputs, 4] as [vectors of outputs, steps, bytes]."""
    panels, steps, width, each = packed.shape
    split = packed.reshape(panels, steps, width // LANES, LANES * each)
    return split.transpose(0, 2, 1, 3).reshape(-1, steps, LANES * each)


def quad_order(packed: NDArray[np.generic]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """
    Return the order of steps for weights [panels, steps, outputs, 4], as [vectors of outputs,
    steps], and two numbers for each vector: n, and m >= n.

    The first n steps are multiplied two at a time, and sums of four products fit 16 bits. In the
    steps before m, sums of two products do; in the last ones, not all.
    """
    weights = _by_vectors(packed).astype(np.int16)
    vectors, steps, _ = weights.shape
    lanes = weights.reshape(vectors, steps, -1, 2)
    # An input can be 0, so positive and negative products are added separately.
    sums = np.concatenate([np.maximum(lanes, 0).sum(-1), np.maximum(-lanes, 0).sum(-1)], axis=-1)
    most = _LARGEST_SUM // _LARGEST_INPUT
    is_pair: NDArray[np.bool_] = np.less_equal(sums.max(axis=-1), most)
    partner = _partners(sums.astype(np.int16), is_pair, most)
    at = np.arange(steps, dtype=np.intp)
    is_quad = partner >= 0
    first = np.where(is_quad, np.minimum(at, partner), at)
    key = np.where(is_quad, 0, np.where(is_pair, 1, 2)) * steps + first
    counts = np.stack([is_quad.sum(1), (is_quad | is_pair).sum(1)], 1).astype(np.intp)
    return np.argsort(key, axis=1, kind="stable"), counts


def ordered_places(
    order: NDArray[np.intp], counts: NDArray[np.intp], places: NDArray[np.int64]
) -> NDArray[np.uint16]:
    """Return the lists of all vectors: the `counts` of `quad_order`, and `places` in the order."""
    return np.concatenate([counts, places[order]], axis=1).astype(np.uint16)


def ordered_weights(packed: NDArray[np.generic], order: NDArray[np.intp]) -> NDArray[np.generic]:
    """Return weights [panels, steps, outputs, 4] as [vectors, steps in `order`, bytes]."""
    return np.take_along_axis(_by_vectors(packed), order[:, :, None], axis=1)


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
    Return the text of a C function that computes integer sums for `positions` positions and 8
    outputs in the order of `quad_order`. Weights are in this order.
    """
    each = range(positions)

    def splat(at: str, p: int) -> str:
        place = at if not p else f"{at} + column" if p == 1 else f"{at} + {p} * column"
        return f"{lanes.splat}_256({place})"

    def loop(end: str, step: int, body: Sequence[str]) -> list[str]:
        advance = "++i, ++at" if step == 1 else f"i += {step}, at += {step}"
        advance += f", w += {4 * LANES * step}"
        head = [f"  const {lanes.element} *x{j} = x + at[{j}];" for j in range(step)]
        return [
            "  MODEL_ROLLED",
            f"  for (; i < {end}; {advance}) {{",
            *(f"  {line}" for line in (*head, *body)),
            f"    {held_sums([f's{p}' for p in each])}",
            "  }",
        ]

    weights = ["  const model_256 a0 = LOAD_256(w);", "  const model_256 a1 = LOAD_256(w + 32);"]
    quads = [
        f"  v = {splat('x0', p)}, u = {splat('x1', p)}, s{p} = DOT_QUADS_256(s{p}, v, a0, u, a1);"
        for p in each
    ]
    pairs = [f"  v = {splat('x0', p)}, s{p} = DOT_PAIRS_256(s{p}, v, a0);" for p in each]
    sums = ["s0 = LOAD_256(bias)", *(f"s{p} = s0" for p in each[1:])]
    stores = (("sums", p, "width") for p in each)
    rows = [to if not p else f"{to} + {p} * {by}" for to, p, by in stores]
    lines = [
        f"/* {positions} positions, `column` apart, by 8 of `width` outputs. `order` lists "
        "the inputs of\n * `steps` steps. */",
        f"MODEL_TILE void {quads_name(positions, lanes)}(const {lanes.element} *x, "
        "int32_t steps, int32_t column,\n    const int8_t *w, int32_t width, "
        "const uint16_t *order, const int32_t *bias, int32_t *sums)",
        "{",
        *(["  (void)column, (void)width;"] if positions == 1 else []),
        "  const int32_t quads = order[0], pairs = order[1];",
        f"  const uint16_t *at = order + {HEADER};",
        f"  model_256 {', '.join(sums)};",
        "  int32_t i = 0;",
        *loop(
            "quads",
            2,
            [f"  MODEL_FETCH(w, {FETCHED_BYTES});", *weights, "  model_256 v, u;", *quads],
        ),
        *loop("pairs", 1, [weights[0], "  model_256 v;", *pairs]),
        *loop("steps", 1, [f"  {line}" for line in half_lines(positions, 1, lanes, "x0", "w")]),
        *(f"  STORE_256({row}, s{p});" for p, row in enumerate(rows)),
        "}",
    ]
    return "\n".join([*lines, ""])


def held_sums(names: Sequence[str]) -> str:
    """
    Return the C statement that keeps the sums in registers at the end of a step: gcc would keep
    some in memory, and each sum waits for the previous one.
    """
    sums = ", ".join(f'"+x"({name})' for name in names)
    return f'__asm__("" : {sums});'


def half_lines(positions: int, vectors: int, lanes: Lanes, x: str, w: str) -> list[str]:
    """
    Return C statements that add the products of a step to the sums of 16 outputs: first of even
    bytes, then of odd bytes, so that few vectors of weights are needed at a time. `x` and `w` are C
    expressions of the addresses.
    """
    lines: list[str] = []
    for half in ("EVEN", "ODD"):
        lines.append("{")
        loads = [
            f"a{b} = {half}_I8(LOAD_256({w}{f' + {32 * b}' if b else ''}))" for b in range(vectors)
        ]
        lines.append(f"  const model_256 {', '.join(loads)};")
        lines.append("  model_256 v;")
        for p in range(positions):
            place = x if not p else f"{x} + column" if p == 1 else f"{x} + {p} * column"
            names = [f"s{p}_{b}" if vectors > 1 else f"s{p}" for b in range(vectors)]
            products = [f"{s} = DOT_WORDS_256({s}, v, a{b})" for b, s in enumerate(names)]
            lines.append(f"  v = {half}_U8({lanes.splat}_256({place})), {', '.join(products)};")
        lines.append("}")
    return lines
