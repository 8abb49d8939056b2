/* y[o] = the sum over the counts[o] stored weights of row o, in order. Each weight is `step`
 * columns after the previous one; the first step starts at column 0. Each step of the sum is
 * rounded to float. */
static void delta_rows_@NAME@(int32_t n, const float *restrict x, const @COUNT@ *restrict counts,
                           const uint8_t *restrict steps, const @WEIGHT@ *restrict w,
                           float *restrict y)
{
  do {
    float sum = 0.0f;
    const float *at = x;
    const int32_t count = *counts++;
    int32_t left = count >> 2;
    if (left) do {
      at += *steps++, sum += *at * (float)*w++;
      at += *steps++, sum += *at * (float)*w++;
      at += *steps++, sum += *at * (float)*w++;
      at += *steps++, sum += *at * (float)*w++;
    } while (--left);
    left = count & 3;
    if (left) do at += *steps++, sum += *at * (float)*w++;
    while (--left);
    *y++ = sum;
  } while (--n);
}
