/* y[o] = the sum of x[i] * w[o][i] in the order of i, each step rounded to float. Weights come
 * in groups of four rows, column by column, so that four sums share each x[i]. */
static void dense_rows_@NAME@(int32_t n, int32_t k, const float *restrict x,
                           const @WEIGHT@ *restrict w, float *restrict y)
{
  for (; n >= 4; n -= 4, y += 4) {
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    const float *const end = x + k;
    for (const float *p = x; p < end; ++p, w += 4) {
      const float v = *p;
      a += v * (float)w[0];
      b += v * (float)w[1];
      c += v * (float)w[2];
      d += v * (float)w[3];
    }
    y[0] = a, y[1] = b, y[2] = c, y[3] = d;
  }
  for (; n > 0; --n, ++y) {
    float a = 0.0f;
    for (int32_t i = 0; i < k; ++i) a += x[i] * (float)*w++;
    *y = a;
  }
}
