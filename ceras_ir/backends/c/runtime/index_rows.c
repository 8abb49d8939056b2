/* y[o] = the sum over the counts[o] stored weights of row o, in order, each with its column. Each
 * step of the sum is rounded to float. */
static void index_rows_@NAME@(int32_t n, const float *restrict x, const @COUNT@ *restrict counts,
                           const uint16_t *restrict columns, const @WEIGHT@ *restrict w,
                           float *restrict y)
{
  do {
    float sum = 0.0f;
    const int32_t count = *counts++;
    int32_t left = count >> 2;
    if (left) {
      do {
      sum += x[*columns++] * (float)*w++;
      sum += x[*columns++] * (float)*w++;
      sum += x[*columns++] * (float)*w++;
      sum += x[*columns++] * (float)*w++;
    } while (--left);
    }
    left = count & 3;
    if (left) {
      do {
        sum += x[*columns++] * (float)*w++;
      }
    while (--left);
    }
    *y++ = sum;
  } while (--n);
}
