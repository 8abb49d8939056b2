/* Sums [positions][width], shifted and clamped, as @RESULT@ of `outputs` outputs at most; with a
 * residual, or none. Positions are `column` elements apart, and `row` after each `columns`. */
MODEL_INLINE void narrow_sums_@NAME@(const int32_t *sums, int32_t positions, int32_t width,
                                     @RESULT@ *y, int32_t columns, int32_t row, int32_t column,
                                     const int8_t *residual, int32_t left_shift, int32_t shift,
                                     int32_t low, int32_t high, int32_t outputs)
{
  const int32_t end = outputs < width ? outputs : width;
  for (int32_t p = 0; p < positions; ++p, sums += width) {
    const int32_t at = p / columns * row + p % columns * column;
    for (int32_t o = 0; o < end; ++o) {
      const int32_t sum = residual ? sums[o] + residual[at + o] * (1 << left_shift) : sums[o];
      const int32_t v = sum >> shift;
      y[at + o] = (@RESULT@)(v < low ? low : v > high ? high : v);
    }
  }
}
