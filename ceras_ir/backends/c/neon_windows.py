"""
Print float depthwise convolutions for 64-bit Arm: a function keeps the weights of four channels in
registers for all windows of a row, and loads each element for all windows of a tile that share it.
"""

from dataclasses import dataclass

from ceras_ir.backends.c.register_tiles import NEON
from ceras_ir.backends.c.values import Kernels

LANES = 4

MAX_TAPS, MAX_WINDOWS = 12, 12
"""The maximum weights and sums in 32 registers, with bias, bounds and elements."""

RESULT_COST, TILE_COST = 5, 10
"""Instructions to start, clamp and store a sum, and of the loop over tiles."""


@dataclass(frozen=True)
class HeldWindows:
    """
    A C function for adjacent windows of `rows` by `columns` taps, all inside of the map, in tiles
    of `size` windows at a distance of `stride` columns.
    """

    size: int
    rows: int
    columns: int
    stride: int
    has_clamp: bool

    @classmethod
    def of(
        cls, count: int, kernel: tuple[int, int], stride: int, *, has_clamp: bool
    ) -> "HeldWindows | None":
        """
        Return the function with the fewest instructions for a row of `count` windows, or `None` if
        registers do not hold the weights.
        """
        if kernel[0] * kernel[1] > MAX_TAPS:
            return None
        ways = (
            cls(size, *kernel, stride, has_clamp) for size in range(1, min(count, MAX_WINDOWS) + 1)
        )
        return min(ways, key=lambda way: (-(-count // way.size) * way._cost, -way.size))

    @property
    def _span(self) -> int:
        """The columns of a tile."""
        return (self.size - 1) * self.stride + self.columns

    @property
    def _cost(self) -> int:
        products = self.rows * self.columns * self.size
        return products + self.rows * self._span + RESULT_COST * self.size + TILE_COST

    def add(self, kernels: Kernels) -> str:
        """Add the function to the kernels, and return its name."""
        name = f"neon_depthwise_{self.size}_{self.rows}x{self.columns}_by_{self.stride}"
        name += "_clamped" * self.has_clamp
        rows, columns, size = range(self.rows), range(self.columns), self.size
        bounds = ", float low, float high" * self.has_clamp
        lines = [
            f"/* `count` windows in tiles of {size}, inside of the map. The last tile and the last",
            " * vector begin earlier, so that they are complete. */",
            f"MODEL_TILE void {name}(float *restrict y, const float *restrict x,",
            "  const float *restrict weights, const float *restrict bias, int32_t count,",
            f"  int32_t row, int32_t channels{bounds})",
            "{",
        ]
        if self.has_clamp:
            lines.append("  const float32x4_t least = vdupq_n_f32(low), most = vdupq_n_f32(high);")
        lines += [
            f"  for (int32_t b = 0; b < channels; b += {LANES}) {{",
            f"    const int32_t c = (b < channels - {LANES}) ? b : channels - {LANES};",
            "    const float32x4_t start = vld1q_f32(bias + c);",
        ]
        for k in rows:
            loads = (
                f"w{k}_{j} = vld1q_f32(weights + c{times(k * self.columns + j, 'channels')})"
                for j in columns
            )
            lines.append(f"    const float32x4_t {', '.join(loads)};")
        lines += [
            f"    for (int32_t i = 0; i < count; i += {size}) {{",
            f"      const int32_t at = (i < count - {size}) ? i : count - {size};",
            f"      const float *const r0 = x + at * {self.stride} * channels + c;",
            *(f"      const float *const r{k} = r{k - 1} + row;" for k in rows[1:]),
            "      float *const to = y + at * channels + c;",
            f"      float32x4_t {', '.join(f's{p} = start' for p in range(size))};",
            "      float32x4_t v;",
        ]
        for k in rows:
            for column in range(self._span):
                uses = [
                    f"s{p} = vfmaq_f32(s{p}, v, w{k}_{column - p * self.stride})"
                    for p in range(size)
                    if 0 <= column - p * self.stride < self.columns
                ]
                if uses:
                    load = f"v = vld1q_f32(r{k}{times(column, 'channels')})"
                    lines.append(f"      {load}, {', '.join(uses)};")
        for p in range(size):
            result = f"s{p}"
            if self.has_clamp:
                result = f"NEON_AT_MOST(NEON_AT_LEAST({result}, least), most)"
            lines.append(f"      vst1q_f32(to{times(p, 'channels')}, {result});")
        kernels.use("vectors_f32")
        return kernels.add(name, "\n".join([*lines, "    }", "  }", "}", ""]), NEON)


def times(count: int, name: str) -> str:
    """Return the end of a C sum, such as `" + 2 * name"`."""
    return f" + {count} * {name}" if count > 1 else f" + {name}" if count else ""
