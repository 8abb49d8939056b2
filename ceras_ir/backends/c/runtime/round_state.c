/* q[i] = h[i] * `up`, rounded half to even by adding 1.5 * 2^23, with NaN as 0, and clamped to 16
 * bits. */
static void round_state(int16_t *restrict q, const float *restrict h, int32_t k, float up)
{
  for (int32_t i = 0; i < k; ++i) {
    float v = h[i] * up;
    v = (v == v) ? v : 0.0f;
    v = (v < -32768.0f) ? -32768.0f : (v > 32767.0f) ? 32767.0f : v;
    v = v + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    q[i] = (int16_t)(bits - 1262485504);
  }
}
