/* y[o] = the sum over the counts[o] stored weights of row o, in order, each with its column.
 * Each step is rounded to float. */
static void index_rows_@NAME@(int32_t n, const float *restrict x, const @COUNT@ *restrict counts,
                           const uint16_t *restrict columns, const @WEIGHT@ *restrict w,
                           float *restrict y)
{
  for (int32_t o = 0; o < n; ++o) {
    float sum = 0.0f;
    const @WEIGHT@ *const end = w + counts[o];
    while (w < end) sum += x[*columns++] * (float)*w++;
    y[o] = sum;
  }
}
