/* A^T m A / 4 of 16 sums, eight apart, plus bias: four adjacent results of an output. Sums may have
 * wrapped around. Four times a result does not wrap around, so the division is exact. */
static inline void dsp_winograd_column(uint32_t *restrict upper, uint32_t *restrict lower,
                                       const int32_t *restrict m)
{
  const uint32_t m1 = (uint32_t)m[32], m2 = (uint32_t)m[64];
  *upper = (uint32_t)m[0] + m1 + m2;
  *lower = m1 - m2 - (uint32_t)m[96];
}
static inline void dsp_winograd_output(int32_t *restrict y, const int32_t *restrict m, int32_t bias)
{
  uint32_t u, v, left, left_below, right, right_below;
  dsp_winograd_column(&left, &left_below, m);
  dsp_winograd_column(&u, &v, m + 8);
  left += u, right = u, left_below += v, right_below = v;
  dsp_winograd_column(&u, &v, m + 16);
  left += u, right -= u, left_below += v, right_below -= v;
  dsp_winograd_column(&u, &v, m + 24);
  right -= u, right_below -= v;
  y[0] = bias + ((int32_t)left >> 2), y[1] = bias + ((int32_t)right >> 2);
  y[2] = bias + ((int32_t)left_below >> 2), y[3] = bias + ((int32_t)right_below >> 2);
}
