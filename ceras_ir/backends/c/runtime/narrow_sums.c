/* Rescales and clamps sums [positions][width] to @RESULT@, of at most `outputs` outputs. Positions
 * are `column` elements apart, and `row` after each `columns`. */
MODEL_INLINE void narrow_sums_@NAME@(const int32_t *restrict sums, int32_t positions, int32_t width,
                                     @RESULT@ *restrict y, int32_t columns, int32_t row,
                                     int32_t column, @RESIDUAL@@SCALE@@SHIFT@, int32_t low,
                                     int32_t high, int32_t outputs)
{
  const int32_t end = (outputs < width) ? outputs : width;
  for (int32_t p = 0; p < positions; ++p) {
    const int32_t at = (p / columns * row) + (p % columns * column);
    int32_t done = 0;
#if MODEL_NEON
    done = end / 8 * 8;
    for (int32_t o = 0; o < done; o += 8) {
      int32x4_t a = vld1q_s32(&sums[o]), b = vld1q_s32(&sums[o + 4]);
@NEON@    }
#endif
    for (int32_t o = done; o < end; ++o) {
      const int32_t sum = sums[o]@ADD@;
      const int32_t v = (int32_t)((sum@TIMES@) >> @BY@);
      y[at + o] = (@RESULT@)((v < low) ? low : (v > high) ? high : v);
    }
    sums += width;
  }
}
