#include "vectors_i8.c"
/* p[j] = float(sum of q[i] * w[j][i]) * scales[j], where q is h in steps of which `up` are 1: rounded
 * half to even by adding 1.5 * 2^23, NaN as 0, and clamped to 16 bits. With 16 lanes w lies in panels
 * of 64 outputs, [n / 64][k / 4][2][4][16][2], so that they hold outputs; q and sums have room for
 * what fills them. Eight sums are under way at once, since each waits for itself. */
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
  while (k % 4) q[k++] = 0;
  for (int32_t j = 0; j < n; j += 64) {
    model_i32v s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int32_t i = 0; i < k; i += 4, w += 256) {
      const model_i32v x = SPLAT(q + i), y = SPLAT(q + i + 2);
      s0 = DOT_WORDS(s0, x, LOAD_WORDS(w)), s1 = DOT_WORDS(s1, x, LOAD_WORDS(w + 32));
      s2 = DOT_WORDS(s2, x, LOAD_WORDS(w + 64)), s3 = DOT_WORDS(s3, x, LOAD_WORDS(w + 96));
      s4 = DOT_WORDS(s4, y, LOAD_WORDS(w + 128)), s5 = DOT_WORDS(s5, y, LOAD_WORDS(w + 160));
      s6 = DOT_WORDS(s6, y, LOAD_WORDS(w + 192)), s7 = DOT_WORDS(s7, y, LOAD_WORDS(w + 224));
    }
    STORE_I32(sums + j, s0 + s4), STORE_I32(sums + j + 16, s1 + s5);
    STORE_I32(sums + j + 32, s2 + s6), STORE_I32(sums + j + 48, s3 + s7);
  }
#else
  @DOT@(1, n, k, q, w, sums);
#endif
  for (int32_t j = 0; j < n; ++j) p[j] = (float)sums[j] * scales[j];
}
