"""
Register tiles where vectors have 8 lanes: a tile is made of smaller ones, of a few positions by
16 outputs, which all shapes share. They read the same weights and give the same sums.
"""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.register_tiles import CONDITION, LANES
from ceras_ir.backends.c.walk import Lanes, Walk, is_moved

MOST = 6
"""Positions of the small tiles: with two vectors of outputs, sums and weights fit 16 registers."""


def _groups(columns: int) -> list[int]:
    """How many positions of a row each small tile takes."""
    count = -(-columns // MOST)
    return [columns // count + (i < columns % count) for i in range(count)]


def _name(positions: int, lanes: Lanes) -> str:
    return f"sums_256_{positions}" + ("_moved" if is_moved(lanes) else "")


def add_products(kernels: Kernels, walk: Walk, lanes: Lanes) -> None:
    """Add the small tiles that a tile is made of."""
    kernels.use("vectors_256")
    for positions in sorted(set(_groups(walk.tile.columns))):
        kernels.add(_name(positions, lanes), _products(positions, lanes), f"{CONDITION} == 8")


def sums_lines(walk: Walk, lanes: Lanes) -> list[str]:
    """Statements that compute the array `sums` of a tile, as [positions, outputs]."""
    t = walk.tile
    lines = [f"  for (int32_t o = 0; o < {t.width}; o += {LANES}) {{"]
    position = 0
    for size in _groups(t.columns) * t.rows:
        offset = walk.offsets[position]
        at = f"x + {offset}" if offset else "x"
        to = f"sums + o + {position * t.width}" if position else "sums + o"
        lines += [
            f"    {_name(size, lanes)}({at}, {walk.runs}, {walk.steps}, {walk.pitch}, "
            f"{walk.column},",
            f"        w + 4 * o, {t.width}, bias + o, {to});",
        ]
        position += size
    return [*lines, "  }"]


def _products(positions: int, lanes: Lanes) -> str:
    """Sums of `positions` by 16 outputs; every distance is a parameter."""
    each = range(positions)
    splat = "SPLAT_MOVED_256" if is_moved(lanes) else "SPLAT_256"
    first = ["s0_0 = LOAD_256(bias)", "s0_1 = LOAD_256(bias + 8)"]
    start = first + [f"s{p}_{b} = s0_{b}" for p in each[1:] for b in (0, 1)]
    lines = [
        f"/* {positions} positions, `column` apart, by 16 of `width` outputs. */",
        f"MODEL_TILE void {_name(positions, lanes)}(const {lanes.element} *x, int32_t runs, "
        "int32_t steps, int32_t pitch,",
        "    int32_t column, const int8_t *w, int32_t width, const int32_t *bias, int32_t *sums)",
        "{",
        *(["  (void)column;"] if positions == 1 else []),
        f"  model_256 {', '.join(start)};",
        "  for (int32_t run = 0; run < runs; ++run, x += pitch) {",
        f"    const {lanes.element} *at = x;",
        "    MODEL_ROLLED",
        "    for (int32_t i = 0; i < steps; ++i, at += 4, w += 4 * width) {",
        "      const model_256 w0 = LOAD_256(w), w1 = LOAD_256(w + 32);",
        "      model_256 v;",
    ]
    for p in each:
        at = f"at + {p} * column" if p > 1 else "at + column" if p else "at"
        lines.append(
            f"      v = {splat}({at}), s{p}_0 = DOT_256(s{p}_0, v, w0), "
            f"s{p}_1 = DOT_256(s{p}_1, v, w1);"
        )
    lines += ["    }", "  }"]
    for p in each:
        to = f"sums + {p} * width" if p > 1 else "sums + width" if p else "sums"
        lines.append(f"  STORE_256({to}, s{p}_0), STORE_256({to} + 8, s{p}_1);")
    return "\n".join([*lines, "}", ""])
