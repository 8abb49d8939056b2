/* y[o] = the sum of x[i] * w[o][i] in the order of i, each step rounded to float. Weights are in
 * groups of four rows, column by column, so that four sums share each x[i]. */
static void dense_rows_@NAME@(int32_t n, int32_t k, const float *restrict x,
                           const @WEIGHT@ *restrict w, float *restrict y)
{
  for (; n >= 4; n -= 4, y += 4) {
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    const float *p = x;
    for (int32_t left = k >> 1; left > 0; --left, p += 2, w += 8) {
      const float u = p[0], v = p[1];
      a += u * (float)w[0], b += u * (float)w[1], c += u * (float)w[2], d += u * (float)w[3];
      a += v * (float)w[4], b += v * (float)w[5], c += v * (float)w[6], d += v * (float)w[7];
    }
    if (k & 1) {
      const float u = *p;
      a += u * (float)w[0], b += u * (float)w[1], c += u * (float)w[2], d += u * (float)w[3];
      w += 4;
    }
    y[0] = a, y[1] = b, y[2] = c, y[3] = d;
  }
  for (; n > 0; --n, ++y) {
    float a = 0.0f;
    for (int32_t i = 0; i < k; ++i) a += x[i] * (float)*w++;
    *y = a;
  }
}
