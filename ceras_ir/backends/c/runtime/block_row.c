/* y[i] = (q[i] - point) * scale for the weights q of a row, @BITS@ bits each, with a scale and a
 * point for each block of `size`. Without points, they are half of the range. */
static void block_row_@NAME@(int32_t columns, int32_t size, const uint8_t *restrict w,
                        const @SCALE@ *restrict scales, const uint8_t *restrict points,
                        float *restrict y)
{
  enum { FIELDS = 8 / @BITS@, MASK = (1 << @BITS@) - 1 };
  for (int32_t i = 0; i < columns; ++i) {
    const int32_t b = i / size, step = i / (4 * FIELDS), at = i % (4 * FIELDS);
    const uint32_t field = (uint32_t)w[4 * step + at % 4] >> (at / 4 * @BITS@) & MASK;
    const int32_t point = points ? points[b] : (MASK + 1) / 2;
    y[i] = (float)((int32_t)field - point) * @LOAD@(scales[b]);
  }
}
