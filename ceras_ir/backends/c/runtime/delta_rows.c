/* y[o] = the sum over the counts[o] stored weights of row o, in order: each stands `step` columns
 * after the one before it, the first after column 0. Each step is rounded to float. */
static void delta_rows_@NAME@(int32_t n, const float *restrict x, const @COUNT@ *restrict counts,
                           const uint8_t *restrict steps, const @WEIGHT@ *restrict w,
                           float *restrict y)
{
  for (int32_t o = 0; o < n; ++o) {
    float sum = 0.0f;
    const float *at = x;
    const @WEIGHT@ *const end = w + counts[o];
    while (w < end) {
      at += *steps++;
      sum += *at * (float)*w++;
    }
    y[o] = sum;
  }
}
