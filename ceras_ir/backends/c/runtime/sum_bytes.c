/* The sum of k bytes minus a zero point. */
MODEL_INLINE int32_t sum_bytes(const uint8_t *q, int32_t k, int32_t point)
{
  int32_t sum = -k * point;
  for (int32_t i = 0; i < k; ++i) sum += q[i];
  return sum;
}
