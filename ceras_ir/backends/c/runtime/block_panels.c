#include "block_vectors.c"
#if BLOCK_LANES
/* A panel of `block_products`, for up to BLOCK_ROWS rows, of which registers hold the sums. A field
 * remains at its place in the bytes if the products permit it, and its sum is shifted. */
MODEL_INLINE void block_panel_@NAME@(const int32_t rows, int32_t left, int32_t blocks, int32_t size,
                                const int8_t *restrict x, const float *restrict steps,
                                const int32_t *restrict sums, const uint8_t *restrict w,
                                const @SCALE@ *restrict scales, const uint8_t *restrict points,
                                const float *restrict bias, float *restrict y, int32_t pitch)
{
  enum { FIELDS = 8 / @BITS@, MIDDLE = 1 << (@BITS@ - 1) };
  enum { IN_PLACE = BLOCK_BYTE == 255, LESS = @BITS@ == 8 && !IN_PLACE ? 128 : 0 };
  block_f32 total[BLOCK_ROWS][BLOCK_PARTS] = {{{0.0f}}};
  const int32_t row = blocks * size;
  const uint32_t mask = ((1u << @BITS@) - 1) * 0x01010101u;
  for (int32_t b = 0; b < blocks; ++b, x += size, scales += 16) {
    block_i32 dot[BLOCK_ROWS][BLOCK_PARTS][FIELDS] = {{{{0}}}};
    for (int32_t i = 0; i < size; i += 4 * FIELDS, w += 64) {
      MODEL_IN_REGISTERS
      for (int32_t p = 0; p < BLOCK_PARTS; ++p) {
        const block_i32 packed = BLOCK_LOAD(w + p * 4 * BLOCK_LANES);
        MODEL_IN_REGISTERS
        for (int32_t f = 0; f < FIELDS; ++f) {
          block_i32 field = packed;
          if (LESS) field = packed ^ (int32_t)0x80808080u;
          else if (IN_PLACE) field = packed & (int32_t)(mask << (f * @BITS@));
          else field = packed >> (f * @BITS@) & (int32_t)mask;
          MODEL_IN_REGISTERS
          for (int32_t r = 0; r < rows; ++r) {
            const block_i32 v = BLOCK_SPLAT(x + r * row + i + 4 * f);
            if (LESS) dot[r][p][f] = BLOCK_SIGNED_DOT(dot[r][p][f], field, v);
            else dot[r][p][f] = BLOCK_DOT(dot[r][p][f], field, v);
          }
        }
      }
    }
    MODEL_IN_REGISTERS
    for (int32_t p = 0; p < BLOCK_PARTS; ++p) {
      block_i32 point = BLOCK_ALL(MIDDLE - LESS);
      if (points) point = BLOCK_LOAD_U8(points + b * 16 + p * BLOCK_LANES) - LESS;
      const block_f32 scale = @LOAD@(scales + p * BLOCK_LANES);
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < rows; ++r) {
        block_i32 sum = dot[r][p][0] - point * sums[r * blocks + b];
        MODEL_IN_REGISTERS
        for (int32_t f = 1; f < FIELDS; ++f)
          sum += IN_PLACE ? dot[r][p][f] >> (f * @BITS@) : dot[r][p][f];
        const block_f32 factor = steps[r * blocks + b] * scale;
        total[r][p] = total[r][p] + __builtin_convertvector(sum, block_f32) * factor;
      }
    }
  }
  for (int32_t r = 0; r < rows; ++r) {
    float all[16];
    (void)memcpy(all, total[r], sizeof all);
    for (int32_t o = 0; o < 16 && o < left; ++o)
      y[r * pitch + o] = bias ? all[o] + bias[o] : all[o];
  }
}
#endif

/* The same as `block_products`, in vectors. */
MODEL_TILE void block_panels_@NAME@(int32_t n, int32_t rows, int32_t blocks, int32_t size,
                               const int8_t *restrict x, const float *restrict steps,
                               const int32_t *restrict sums, const uint8_t *restrict w,
                               const @SCALE@ *restrict scales, const uint8_t *restrict points,
                               const float *restrict bias, float *restrict y, int32_t pitch)
{
#if BLOCK_LANES
  const int32_t row = blocks * size, panel = row * @BITS@ / 8 * 16;
  for (int32_t first = 0; first < n; first += 16, w += panel, scales += blocks * 16) {
    const uint8_t *point = points ? points + first * blocks : NULL;
    const float *added = bias ? bias + first : NULL;
    float *to = y + first;
    int32_t r = 0;
    for (; r + BLOCK_ROWS <= rows; r += BLOCK_ROWS)
      block_panel_@NAME@(BLOCK_ROWS, n - first, blocks, size, x + r * row, steps + r * blocks,
                    sums + r * blocks, w, scales, point, added, to + r * pitch, pitch);
    for (; r < rows; ++r)
      block_panel_@NAME@(1, n - first, blocks, size, x + r * row, steps + r * blocks,
                    sums + r * blocks, w, scales, point, added, to + r * pitch, pitch);
  }
#else
  @PORTABLE@(n, rows, blocks, size, x, steps, sums, w, scales, points, bias, y, pitch);
#endif
}
