/* p[j] = float(sum of q[i] * w[j][i]) * scales[j], where q is h in steps of which `up` are 1: rounded
 * half to even by adding 1.5 * 2^23, NaN as 0, and clamped to 16 bits. */
static void multiply_state_i16(float *restrict p, const float *restrict h, const int8_t *restrict w,
                               const float *restrict scales, int32_t k, int32_t n, float up,
                               int16_t *restrict q, int32_t *restrict sums)
{
  for (int32_t i = 0; i < k; ++i) {
    float v = h[i] * up;
    v = v == v ? v : 0.0f;
    v = v < -32768.0f ? -32768.0f : v > 32767.0f ? 32767.0f : v;
    v = v + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    q[i] = (int16_t)(bits - 1262485504);
  }
  @DOT@(1, n, k, q, w, sums);
  for (int32_t j = 0; j < n; ++j) p[j] = (float)sums[j] * scales[j];
}
