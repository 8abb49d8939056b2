/* Quantizes blocks of `size` floats of the rows x to 8 bits: q, with zeros after the end of a row,
 * the scale of each block, and the sum of its integers. The largest magnitude becomes 127. A block
 * with magnitudes below 2^-100 is 0; with infinity or NaN, the scale is NaN. */
static void quantize_blocks(int32_t rows, int32_t k, int32_t size, const float *restrict x,
                            int8_t *restrict q, float *restrict steps, int32_t *restrict sums)
{
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t left = k; left > 0; left -= size, q += size) {
      const int32_t count = left < size ? left : size;
      uint32_t largest = 0;
      for (int32_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
      }
      float step = 0.0f, factor = 0.0f;
      if (largest >= 0x7F800000u) {
        const uint32_t nan = 0x7FC00000u;
        memcpy(&step, &nan, sizeof step);
      } else if (largest >= 0x0D800000u) {
        float magnitude;
        memcpy(&magnitude, &largest, sizeof magnitude);
        step = magnitude / 127.0f;
        factor = 127.0f / magnitude;
      }
      int32_t sum = 0;
      (void)memset(q, 0, (size_t)size);
      for (int32_t i = 0; i < count && factor > 0.0f; ++i) {
        /* Adding 1.5 * 2^23 rounds half to even. */
        const float moved = x[i] * factor + 12582912.0f;
        int32_t bits;
        memcpy(&bits, &moved, sizeof bits);
        q[i] = (int8_t)(bits - 1262485504);
        sum += q[i];
      }
      x += count;
      *steps++ = step;
      *sums++ = sum;
    }
  }
}
