/* y[r][o] = the sum over blocks b of (x[r][b] . (w[o][b] - point)) * (step[r][b] * scale[o][b]), in
 * order, each step rounded to float, plus the bias if there is one. The dot products are exact.
 * Outputs are in panels of @LANES@. Each byte of a panel has weights of @BITS@ bits, and the weights
 * of a field are multiplied by four consecutive bytes of x. Without points, they are half of the
 * range. The sums of the bytes of x in a block remove the points. */
static void block_products_@NAME@(int32_t n, int32_t rows, int32_t blocks, int32_t size,
                             const int8_t *restrict x, const float *restrict steps,
                             const int32_t *restrict sums, const uint8_t *restrict w,
                             const @SCALE@ *restrict scales, const uint8_t *restrict points,
                             const float *restrict bias, float *restrict y, int32_t pitch)
{
  enum { LANES = @LANES@, FIELDS = 8 / @BITS@, MASK = (1 << @BITS@) - 1 };
  const int32_t bytes = blocks * size / FIELDS * LANES;
  for (int32_t first = 0; first < n; first += LANES, w += bytes, scales += blocks * LANES) {
    for (int32_t r = 0; r < rows; ++r) {
      const int8_t *from = x + r * blocks * size;
      const uint8_t *packed = w;
      float total[LANES] = {0.0f};
      for (int32_t b = 0; b < blocks; ++b) {
        int32_t dot[LANES];
        for (int32_t o = 0; o < LANES; ++o) {
          const int32_t point = points ? points[(first * blocks) + b * LANES + o] : (MASK + 1) / 2;
          dot[o] = -point * sums[r * blocks + b];
        }
        for (int32_t i = 0; i < size; i += 4 * FIELDS, from += 4 * FIELDS)
          for (int32_t o = 0; o < LANES; ++o)
            for (int32_t j = 0; j < 4; ++j, ++packed)
              for (int32_t f = 0; f < FIELDS; ++f)
                dot[o] += (int32_t)((uint32_t)*packed >> (f * @BITS@) & MASK) * from[4 * f + j];
        const float step = steps[r * blocks + b];
        for (int32_t o = 0; o < LANES; ++o)
          total[o] += (float)dot[o] * (step * @LOAD@(scales[b * LANES + o]));
      }
      for (int32_t o = 0; o < LANES && first + o < n; ++o)
        y[r * pitch + first + o] = bias ? total[o] + bias[first + o] : total[o];
    }
  }
}
