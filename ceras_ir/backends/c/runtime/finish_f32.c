/* Stores sums [positions][width] as results of at most `outputs` outputs, with an optional
 * residual, clamped to bounds. Positions are `column` floats apart, and `row` after each
 * `columns`. */
MODEL_INLINE void finish_f32(const float *sums, int32_t positions, int32_t width, float *y,
                             int32_t columns, int32_t row, int32_t column, const float *residual,
                             float low, float high, int32_t outputs)
{
  const int32_t end = (outputs < width) ? outputs : width;
  for (int32_t p = 0; p < positions; ++p) {
    const int32_t at = (p / columns * row) + (p % columns * column);
    for (int32_t o = 0; o < end; ++o) {
      const float v = residual ? (sums[o] + residual[at + o]) : sums[o];
      y[at + o] = (v < low) ? low : (v > high) ? high : v;
    }
    sums += width;
  }
}
