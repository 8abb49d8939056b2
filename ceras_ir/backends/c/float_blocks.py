"""
Print float layers for vectors of 8 lanes: blocks of up to 24 outputs, groups of up to 6 windows.

16 registers hold the sums of 6 windows by 2 vectors of outputs, or of 4 windows by 3. The weights
of a block are copied so that they are contiguous, a part of the window at a time, which the
first-level cache holds for all windows of a tile. Each sum adds products in the order of the
window, like register tiles of 16 lanes, so that the bits are equal.
"""

from dataclasses import dataclass, replace
from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import EIGHT_LANES, Tile, Walk, strip_length
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.tile_nest import FLOAT_BYTES, NEAR_BYTES, Nest
from ceras_ir.backends.c.values import Kernels

LANES = 8

MAX_SUMS = 12
"""The maximum number of vectors of sums, so that weights and an input element have registers."""

MAX_WINDOWS = 6

PACKED_TAPS, PACKED_VECTORS = 192, 3
"""The weights per output that are packed at a time, and the vectors of outputs of a block."""

MIN_PACKED_WINDOWS = 12
"""Windows of a tile from which a copy of the weights takes less time than it saves."""

ROW_VECTORS = {1: 14, 2: 6, 3: 4}
"""
The maximum vectors of outputs of a block for tiles of few windows. Most of the time is to load
weights, which are adjacent.
"""

TILE_WINDOWS = 192
"""Windows of a tile, for which weights are packed a single time."""

MAX_STRIP_BYTES = 128 * 1024
"""Bytes of input rows that remain in the second-level cache for all panels."""


@dataclass(frozen=True)
class Block:
    """A block of `vectors` vectors of outputs, computed for at most `windows` windows at a time."""

    windows: int
    vectors: int

    @classmethod
    def of(cls, count: int, vectors: int) -> "Block":
        """Return the block in which `count` windows form groups of almost equal size."""
        most = max(min(MAX_WINDOWS, MAX_SUMS // vectors), 1)
        return cls(-(-count // -(-count // most)), vectors)

    @property
    def name(self) -> str:
        return f"block_f32_{self.windows}x{self.vectors}"

    def add(self, kernels: Kernels) -> str:
        """Add the C functions of the block to the kernels, and return the name."""
        kernels.use("rows_f32", PACKED_TAPS=str(PACKED_TAPS))
        sizes = [n for n in (self.windows, self.windows - 1) if n > 0]
        for size in sizes:
            kernels.add(*self._sums(size), EIGHT_LANES)
        return kernels.add(self.name, self._block(sizes), EIGHT_LANES)

    def _sums_name(self, windows: int) -> str:
        return f"sums_f32_{windows}x{self.vectors}"

    def _sums(self, windows: int) -> tuple[str, str]:
        """Return the name and the text of the C function of a group of `windows` windows."""
        each, blocks = range(windows), range(self.vectors)

        def at(pointer: str, b: int) -> str:
            return f"{pointer} + {LANES * b}" if b else pointer

        shape = f"{windows} windows, at distances `at`, by {LANES * self.vectors} outputs"
        lines = [
            f"/* {shape}: `rows` parts of a",
            " * window from number `part`, the first at `first`. Sums start at `start`,",
            " * `from` apart. */",
            f"MODEL_INLINE void {self._sums_name(windows)}(const struct rows_f32 *g,",
            "    const float *x, const int32_t *at, int32_t first, int32_t part, int32_t rows,",
            "    int32_t steps, const float *w, int32_t width, const float *start, int32_t from,",
            "    float *y, int32_t apart, const float *residual, float low, float high)",
            "{",
            f"  const float {', '.join(f'*const x{p} = x + at[{p}]' for p in each)};",
        ]
        for p in each:
            sums = ", ".join(f"s{p}_{b} = LOAD_F32({at('start', b)})" for b in blocks)
            lines.append(f"  model_f32v {sums};")
            if p < windows - 1:
                lines.append("  start += from;")
        if windows == 1:
            lines.append("  (void)from;")
        weights = ", ".join(f"w{b} = LOAD_F32({at('w', b)})" for b in blocks)
        products = [
            f"      v = SPLAT_F32(x{p} + k), "
            + ", ".join(f"s{p}_{b} = FMA(s{p}_{b}, v, w{b})" for b in blocks)
            + ";"
            for p in each
        ]
        lines += [
            "  intptr_t k = first;",
            "  for (int32_t row = 0; row < rows; ++row) {",
            "    const intptr_t end = k + steps;",
            "    MODEL_ROLLED",
            "    for (; k < end; ++k, w += width) {",
            f"      const model_f32v {weights};",
            "      model_f32v v;",
            *products,
            "    }",
            "    k += g->piece - steps;",
            "    if (++part == g->pieces) part = 0, k += g->pitch - g->pieces * g->piece;",
            "  }",
            "  if (residual) {",
        ]
        for p in each:
            lines += [f"    s{p}_{b} += LOAD_F32({at('residual', b)});" for b in blocks]
            if p < windows - 1:
                lines.append("    residual += apart;")
        lines += ["  }", "  const model_f32v least = ALL_F32(low), most = ALL_F32(high);"]
        for p in each:
            lines += [
                f"  STORE_F32({at('y', b)}, AT_MOST(AT_LEAST(s{p}_{b}, least), most));"
                for b in blocks
            ]
            if p < windows - 1:
                lines.append("  y += apart;")
        if windows == 1:
            lines.append("  (void)apart;")
        return self._sums_name(windows), "\n".join([*lines, "}", ""])

    def _block(self, sizes: list[int]) -> str:
        width = LANES * self.vectors
        arguments = (
            "(g, x, at, offset, part, rows, steps, from, apart, start, between, to, distance,\n"
            "            add, low, high);"
        )
        calls: list[str] = []
        for size, head in zip(sizes, ("if (group < larger) {", "} else {"), strict=False):
            calls += [
                f"      {head}",
                f"        next_windows(at, {size}, &r, &c, g);",
                f"        {self._sums_name(size)}{arguments}",
                f"        start += {size} * between, to += {size} * distance;",
                f"        if (add) add += {size} * distance;",
            ]
        calls.append("      }")
        if len(sizes) == 1:
            calls = calls[1:-1]
        loads = "".join(
            f" STORE_F32(packed + i * {width}{f' + {LANES * b}' if b else ''}, "
            f"LOAD_F32(from + i * g->width{f' + {LANES * b}' if b else ''}));"
            for b in range(self.vectors)
        )
        larger = ""
        if len(sizes) > 1:
            larger = f"\n  const int32_t larger = count - groups * {self.windows - 1};"
        return f"""\
/* `count` windows by {width} outputs, of which `outputs` are stored. `memory` has packed weights
 * and sums, `next` the weights to load into the cache. Sums start at `bias`, or at `y` if it is
 * NULL. */
MODEL_TILE void {self.name}(const struct rows_f32 *g, const float *x, const float *w,
    const float *bias, float *y, const float *residual, int32_t count, int32_t outputs,
    const float *next, float *memory)
{{
  const int32_t groups = (count + {self.windows - 1}) / {self.windows};{larger}
  const int32_t parts = g->runs * g->pieces, all = parts * g->steps;
  float *const sums = memory, *const packed = memory + count * {width};
  const int is_packed = count >= {MIN_PACKED_WINDOWS} && g->width > {width};
  for (int32_t done = 0; done < all;) {{
    const int32_t begin = done % g->steps, row = done / g->steps, part = row % g->pieces;
    const int32_t offset = row / g->pieces * g->pitch + part * g->piece + begin;
    int32_t rows = 1, steps = g->steps;
    if (steps > PACKED_TAPS) {{
      const int32_t cuts = (steps + PACKED_TAPS - 1) / PACKED_TAPS;
      const int32_t equal = (steps + cuts - 1) / cuts;
      steps = steps - begin < equal ? steps - begin : equal;
    }} else {{
      rows = PACKED_TAPS / steps < parts - row ? PACKED_TAPS / steps : parts - row;
    }}
    const float *from = w + done * g->width;
    int32_t apart = g->width;
    if (is_packed) {{
      for (int32_t i = 0; i < rows * steps; ++i) {{
       {loads}
      }}
      from = packed, apart = {width};
    }}
    const float *start = done ? sums : bias ? bias : y;
    const int32_t between = done ? {width} : bias ? 0 : g->outputs;
    done += rows * steps;
    uintptr_t ahead = (uintptr_t)(done < all ? w + done * g->width : next);
    const int32_t lines = next && is_packed ? (rows * steps + groups - 1) / groups : 0;
    const int is_last = done == all, is_stored = is_last && outputs == {width};
    const float low = is_stored ? g->low : -INFINITY, high = is_stored ? g->high : INFINITY;
    const float *add = is_stored ? residual : 0;
    float *to = is_stored ? y : sums;
    const int32_t distance = is_stored ? g->outputs : {width};
    int32_t r = 0, c = 0, at[{self.windows}];
    for (int32_t group = 0; group < groups; ++group) {{
      for (int32_t i = 0; i < lines; ++i, ahead += 4U * (uintptr_t)g->width) MODEL_FETCH(ahead, 0);
{chr(10).join(calls)}
    }}
  }}
  if (outputs < {width}) {{
    finish_f32(sums, count, {width}, y, count, 0, g->outputs, residual, g->low, g->high, outputs);
  }}
}}
"""


def blocked(nest: Nest, workspace: int) -> Nest:
    """
    Return the loops of a layer with tiles of complete rows, for vectors of 8 lanes. Input rows that
    are copied fit `workspace` bytes.
    """
    if nest.is_product:
        count = max(1, round(nest.rows / TILE_WINDOWS))
        rows = -(-nest.rows // count)
        strip = nest.rows
        if nest.strip < nest.rows:
            strip = strip_length(nest.rows, rows, MAX_STRIP_BYTES // (FLOAT_BYTES * nest.channels))
        return replace(nest, tile=Tile(rows, 1, nest.tile.blocks), strip=strip)
    most = nest.rows
    if not nest.in_place:
        room = workspace // (FLOAT_BYTES * nest.pitch)
        most = min(most, max((room - nest.extent) // nest.stride[0] + 1, nest.strip))
    if FLOAT_BYTES * prod(nest.panel_shape(1)) <= NEAR_BYTES:
        near = MAX_STRIP_BYTES // (FLOAT_BYTES * nest.pitch * nest.stride[0])
        most = min(most, max(near, -(-TILE_WINDOWS // (2 * nest.columns))))
    count = max(1, round(most * nest.columns / TILE_WINDOWS))
    rows = -(-most // count)
    while (strip := strip_length(nest.rows, rows, most)) > most:
        rows -= 1
    return replace(nest, tile=Tile(rows, nest.columns, nest.tile.blocks), strip=strip)


def memory_elements(windows: int) -> int:
    """Return the number of floats of the memory of a block for a tile of `windows`."""
    if windows < MIN_PACKED_WINDOWS:
        return windows * LANES * ROW_VECTORS.get(windows, PACKED_VECTORS)
    return (PACKED_TAPS + windows) * PACKED_VECTORS * LANES


def geometry(nest: Nest, walk: Walk, low: str, high: str) -> str:
    """Return the C initializer of `struct rows_f32`."""
    places = nest.tile.columns, walk.row, walk.column, nest.all_outputs
    taps = walk.runs, walk.pitch, walk.pieces, walk.piece, walk.steps
    return f"{{{', '.join(map(str, (*places, *taps, nest.tile.width, low, high)))}}}"


def block_calls(layer: Layer, nest: Nest, names: tuple[str, str, str, str, str]) -> list[str]:
    """
    Return the C statements that compute a tile: all outputs of the panel that begins with output
    `b`. `names` are C expressions of the first window, the weights of the panel, the bias, the
    results and the residual ("" without a residual).
    """
    x, w, bias, y, residual = names
    count, width = nest.tile.positions, nest.tile.width

    size = nest.panel_bytes // FLOAT_BYTES

    def call(vectors: int) -> str:
        following = f"o + {LANES * vectors} < end ? o + {LANES * vectors} : {size}"
        name = Block.of(count, vectors).add(layer.kernels)
        more = f"{residual} + o" if residual else "0"
        wide = LANES * vectors
        outputs = str(wide)
        if nest.outputs % width % wide:
            outputs = f"end - o < {wide} ? end - o : {wide}"
        return (
            f"{name}(&windows, {x}, {w} + o, {bias} + o, {y} + o, {more}, {count}, {outputs}, "
            f"{w} + ({following}), memory);"
        )

    end = str(width)
    if nest.outputs % width:
        end = f"{nest.outputs} - b < {width} ? {nest.outputs} - b : {width}"
    lines = [f"const int32_t end = {end};", "int32_t o = 0;"]
    if (most := ROW_VECTORS.get(count)) is not None:
        vectors = max(v for v in range(1, most + 1) if width // LANES % v == 0)
        return [*lines, f"for (; o < end; o += {LANES * vectors}) {call(vectors)}"]
    # The outputs of a panel: of all but the last, and of the last.
    ends = {min(nest.outputs, width), (nest.outputs - 1) % width + 1}
    odd = {e for e in ends if 1 <= e % 16 <= LANES}
    if any(e > 24 or LANES < e <= 16 for e in ends):
        more = "end - o > 24 || (end - o > 8 && end - o <= 16)" if odd else "o < end"
        lines.append(f"for (; {more}; o += 16) {call(2)}")
    if any(e > 16 for e in odd):
        lines.append(f"if (end - o > 16) {call(3)}")
    if any(e <= LANES for e in odd):
        lines.append(f"if (end > o && end - o <= 8) {call(1)}")
    return lines


def memory_of(layer: Layer, count: int) -> list[str]:
    """
    Reserve the memory of a block. Return the statements that each thread executes to declare it.
    """
    if is_shared(layer):
        return layer.own_scratch("float", "memory", count, 4)
    layer.scratch("float", "memory", count, 4)
    return []
