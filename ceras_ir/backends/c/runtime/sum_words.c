/* The sum of k integers. */
MODEL_INLINE int32_t sum_words(const int16_t *q, int32_t k)
{
  int32_t sum = 0;
  for (int32_t i = 0; i < k; ++i) sum += q[i];
  return sum;
}
