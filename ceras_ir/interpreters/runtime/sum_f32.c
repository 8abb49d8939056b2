/* The sum of n elements, each `step` behind the other: 16 sums of every sixteenth, from 0, then
 * those one after the other. So it is as exact for long rows as for short ones, and fits vectors. */
static inline float sum_f32(const float *x, size_t n, size_t step)
{
  float sums[16] = {0};
  size_t k = 0;
  for (; (k + 16U) <= n; k += 16U) {
    for (size_t j = 0; j < 16U; ++j) {
      sums[j] += x[(k + j) * step];
    }
  }
  for (size_t j = 0; (j < 16U) && ((k + j) < n); ++j) {
    sums[j] += x[(k + j) * step];
  }
  float sum = sums[0];
  for (size_t j = 1; j < 16U; ++j) {
    sum += sums[j];
  }
  return sum;
}
