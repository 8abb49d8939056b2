#include "vectors_i8.c"
/* p[j] = float(sum of q[i] * w[j][i]) * scales[j], where q is h in steps of which `up` are 1: rounded
 * half to even by adding 1.5 * 2^23, NaN as 0, and clamped to 16 bits. With 16 lanes w lies in pairs,
 * [n / 16][k / 2][16][2], so that they hold outputs; q and sums have room for what fills them. */
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
#if MODEL_LANES == 16
  const int32_t pairs = (k + 1) / 2;
  if (k % 2) q[k] = 0;
  for (int32_t j = 0; j < n; j += 32, w += 64 * pairs) {
    const int8_t *v = j + 16 < n ? w + 32 * pairs : w;
    model_i32v a = {0}, b = {0};
    for (int32_t i = 0; i < pairs; ++i) {
      const model_i32v x = SPLAT(q + 2 * i);
      a = DOT_WORDS(a, x, LOAD_WORDS(w + 32 * i));
      b = DOT_WORDS(b, x, LOAD_WORDS(v + 32 * i));
    }
    STORE_I32(sums + j, a), STORE_I32(sums + j + 16, b);
  }
#else
  @DOT@(1, n, k, q, w, sums);
#endif
  for (int32_t j = 0; j < n; ++j) p[j] = (float)sums[j] * scales[j];
}
