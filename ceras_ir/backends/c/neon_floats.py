"""
Print float register tiles for 64-bit Arm: a few positions by 16 or 8 outputs.

A function computes equidistant positions, a few in each pass, and stores the finished results:
products are added in the order of the window, then the residual, then the clamp. A loop loads 16
bytes of the input of each position, of which a product selects an element. Each sum remains in a
register.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR, NEON, Stores, Walk
from ceras_ir.backends.c.values import Kernels

LANES = 4

MAX_POSITIONS = {4: 5, 2: 9}
"""Vectors of outputs -> the maximum positions whose sums, weights and inputs fit 32 registers."""

STEPS = 4
"""Steps of the loop that loads 16 bytes of each position."""

CALL_COST = 20
"""The cost of a call for a tile, in instructions of a loop over `STEPS` steps."""


def in_passes(count: int, vectors: int) -> int:
    """
    Return the number of positions of a pass, so that `count` positions need the fewest
    instructions. The last pass may overlap with the previous.
    """
    sizes = range(1, min(count, MAX_POSITIONS[vectors]) + 1)
    return min(sizes, key=lambda size: (-(-count // size) * _pass_cost(size, vectors), -size))


def _pass_cost(size: int, vectors: int) -> int:
    # The products, loads of inputs and of weights, and the loop.
    return STEPS * (vectors * size + 1) + size + 3


def tile_cost(count: int) -> int:
    """Return the modelled instructions of a tile of `count` positions, for `STEPS` steps."""
    size = in_passes(count, 4)
    return -(-count // size) * _pass_cost(size, 4) + CALL_COST


@dataclass(frozen=True)
class Rows:
    """
    A C function that computes equidistant positions by `vectors` vectors of outputs, `size`
    positions in each pass.
    """

    size: int
    vectors: int
    has_pieces: bool
    """Whether a row of a window has several contiguous pieces."""
    has_residual: bool = False
    has_clamp: bool = False

    @property
    def name(self) -> str:
        name = f"neon_f32_{self.size}x{self.vectors}" + "_pieces" * self.has_pieces
        return name + "_residual" * self.has_residual + "_clamped" * self.has_clamp

    def add(self, kernels: Kernels) -> str:
        """Add the function to the kernels, and return its name."""
        kernels.use("vectors_f32")
        kernels.use("vectors_neon")
        return kernels.add(self.name, self._text(), NEON)

    def _text(self) -> str:
        each, vectors = range(self.size), range(self.vectors)
        last = f"count - {self.size}"
        residual = ", const float *residual" * self.has_residual
        bounds = ", float low, float high" * self.has_clamp
        pieces = "int32_t pieces, int32_t piece, " * self.has_pieces
        lines = [
            f"/* `count` positions, `column` apart, by {LANES * self.vectors} outputs. */",
            f"MODEL_TILE void {self.name}(const float *start, {pieces}int32_t runs, int32_t steps,",
            "    int32_t pitch, int32_t column, const float *weights, int32_t width,",
            f"    const float *bias, int32_t count, float *to, int32_t apart{residual}{bounds})",
            "{",
        ]
        if self.has_clamp:
            lines.append("  const float32x4_t least = vdupq_n_f32(low), most = vdupq_n_f32(high);")
        lines += [
            f"  for (int32_t p = 0; p < count; p += {self.size}) {{",
            f"    const int32_t first = (p < {last}) ? p : ({last});",
            "    const float *x = start + first * column, *w = weights;",
            "    float *const y = to + first * apart;",
        ]
        if self.has_residual:
            lines.append("    const float *const skip = residual + first * apart;")
        for p in each:
            # A load of a pair of vectors replaces two moves.
            loads = ", ".join(
                f"s{p}_{b} = vld1q_f32({_offset('bias', LANES * b)})" for b in vectors
            )
            lines.append(f"    {'NEON_ORDER ' if p else ''}float32x4_t {loads};")
        lines.append("    for (int32_t run = 0; run < runs; ++run, x += pitch) {")
        at = "x"
        if self.has_pieces:
            lines.append("      const float *part = x;")
            lines.append("      for (int32_t q = 0; q < pieces; ++q, part += piece) {")
            at = "part"
        lines += [f"      {line}" for line in self._loops(at)]
        lines += ["      }"] * self.has_pieces + ["    }"]
        lines += [f"    {line}" for p in each for line in self._finished(p)]
        return "\n".join([*lines, "  }", "}", ""])

    def _loops(self, start: str) -> list[str]:
        """Return the loops over the steps of a contiguous part of a window."""
        each, vectors = range(self.size), range(self.vectors)
        kind = f"float32x4x{self.vectors}_t"
        lines = [
            f"const float *at = {start};",
            "int32_t i = 0;",
            "MODEL_ROLLED",
            f"for (; i + {STEPS - 1} < steps; i += {STEPS}, at += {STEPS}) {{",
        ]
        lines += [f"  const float32x4_t x{p} = vld1q_f32({_place('at', p)});" for p in each]
        for step in range(STEPS):
            lines.append(f"  {kind} w{step};")
            lines.append(f"  NEON_NEXT_{self.vectors}(w{step}, w, width);")
            lines += [
                "  "
                + " ".join(
                    f"s{p}_{b} = vfmaq_laneq_f32(s{p}_{b}, w{step}.val[{b}], x{p}, {step});"
                    for b in vectors
                )
                for p in each
            ]
        lines += [
            "}",
            "MODEL_ROLLED",
            "for (; i < steps; ++i, ++at) {",
            f"  {kind} w0;",
            f"  NEON_NEXT_{self.vectors}(w0, w, width);",
        ]
        lines += [
            "  "
            + " ".join(
                f"s{p}_{b} = vfmaq_n_f32(s{p}_{b}, w0.val[{b}], *({_place('at', p)}));"
                for b in vectors
            )
            for p in each
        ]
        return [*lines, "}"]

    def _finished(self, position: int) -> list[str]:
        """Return the statements that store the results of a position."""
        lines: list[str] = []
        for b in range(self.vectors):
            s, place = f"s{position}_{b}", _place("{}", position, "apart")
            place = _offset(place, LANES * b)
            if self.has_residual:
                lines.append(f"{s} = vaddq_f32({s}, vld1q_f32({place.format('skip')}));")
            if self.has_clamp:
                lines.append(f"{s} = NEON_AT_MOST(NEON_AT_LEAST({s}, least), most);")
            lines.append(f"vst1q_f32({place.format('y')}, {s});")
        return lines


def _place(pointer: str, position: int, distance: str = "column") -> str:
    times = f"{position} * " if position > 1 else ""
    return f"{pointer} + {times}{distance}" if position else pointer


def _offset(pointer: str, elements: int) -> str:
    return f"{pointer} + {elements}" if elements else pointer


@dataclass(frozen=True)
class _Calls:
    """The C calls that compute a tile, for the outputs from `o` on."""

    walk: Walk
    vectors: int
    bias: str
    has_residual: bool = False
    has_clamp: bool = False

    @property
    def _rows(self) -> Rows:
        size = in_passes(self.walk.tile.equidistant[0], self.vectors)
        return Rows(size, self.vectors, self.walk.pieces > 1, self.has_residual, self.has_clamp)

    def add(self, kernels: Kernels) -> None:
        """Add the C function to the kernels."""
        self._rows.add(kernels)

    def lines(self, to: str, row: int, apart: int) -> Iterator[str]:
        """
        Return the calls. Results of rows of positions are stored from `to` on, at the distance
        `row`, those of positions of a row at the distance `apart`.
        """
        walk, t = self.walk, self.walk.tile
        distance = walk.row if t.columns == 1 else walk.column
        pieces = f"{walk.pieces}, {walk.piece}, " if walk.pieces > 1 else ""
        for i, count in enumerate(t.equidistant):
            at = i * row
            further = f", {_offset('residual + o', at)}" if self.has_residual else ""
            further += ", low, high" if self.has_clamp else ""
            yield (
                f"{self._rows.name}({_offset('x', walk.offsets[i * t.columns])}, {pieces}"
                f"{walk.runs}, {walk.steps}, {walk.pitch}, {distance},"
            )
            yield (
                f"    w + o, {t.width}, {self.bias}, {count}, {_offset(to, at)}, {apart}{further});"
            )


def add_sums(kernels: Kernels, walk: Walk) -> None:
    """Add the C functions of `sums_lines` to the kernels."""
    _Calls(walk, 4, "zeros").add(kernels)


def sums_lines(walk: Walk) -> list[str]:
    """
    Return C statements that compute the array `sums` [positions, outputs] of a tile without bias.
    """
    t = walk.tile
    calls = _Calls(walk, 4, "zeros").lines("sums + o", t.equidistant[0] * t.width, t.width)
    return [
        f"  static const float zeros[{LANES_PER_VECTOR}] = {{0}};",
        f"  for (int32_t o = 0; o < {t.width}; o += {LANES_PER_VECTOR}) {{",
        *(f"    {line}" for line in calls),
        "  }",
    ]


@dataclass(frozen=True)
class FinishedTile:
    """
    A tile that stores finished results. The layer has `rest` outputs in addition to complete
    groups of 16.
    """

    walk: Walk
    stores: Stores
    has_clamp: bool
    rest: int

    @property
    def _rest_vectors(self) -> int:
        """The vectors of the outputs beyond complete groups."""
        return 2 if self.rest <= 2 * LANES else 4

    @property
    def _is_rest_complete(self) -> bool:
        """Whether these outputs fill vectors, so that no sum is beyond the results."""
        return self.rest == LANES * self._rest_vectors

    def _calls(self, vectors: int) -> _Calls:
        return _Calls(self.walk, vectors, "bias + o", self.stores.has_residual, self.has_clamp)

    @property
    def _rest_calls(self) -> _Calls:
        vectors = self._rest_vectors
        return (
            self._calls(vectors)
            if self._is_rest_complete
            else _Calls(self.walk, vectors, "bias + o")
        )

    def add(self, kernels: Kernels) -> None:
        """Add the C functions that `lines` calls to the kernels."""
        self._calls(4).add(kernels)
        if self.rest:
            self._rest_calls.add(kernels)

    def lines(self) -> list[str]:
        """Return the C statements of the tile."""
        width = self.walk.tile.width
        lines = [f"  for (int32_t o = 0; o < {width}; o += {LANES_PER_VECTOR}) {{"]
        if self.stores.is_masked:
            lines.append("    if (o >= outputs) break;")
        if self.rest:
            lines += [
                f"    if ((outputs - o) < {LANES_PER_VECTOR}) {{",
                *(f"      {line}" for line in self._rest_lines()),
                "      break;",
                "    }",
            ]
        return [*lines, *(f"    {line}" for line in self._stored(self._calls(4))), "  }"]

    def _stored(self, calls: _Calls) -> Iterator[str]:
        stores = self.stores
        apart = stores.row if self.walk.tile.columns == 1 else stores.column
        return calls.lines("y + o", stores.row, apart)

    def _rest_lines(self) -> Iterator[str]:
        calls, t, stores = self._rest_calls, self.walk.tile, self.stores
        if self._is_rest_complete:
            yield from self._stored(calls)
            return
        width = LANES * calls.vectors
        yield f"float sums[{t.positions * width}];"
        yield from calls.lines("sums", t.equidistant[0] * width, width)
        yield (
            f"finish_f32(sums, {t.positions}, {width}, y + o, {t.columns}, {stores.row}, "
            f"{stores.column}, {'residual + o' if stores.has_residual else '0'}, "
            f"{'low, high' if self.has_clamp else '-INFINITY, INFINITY'}, {self.rest});"
        )
