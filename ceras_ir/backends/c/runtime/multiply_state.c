#include "vectors_f32.c"
/* p[j] = the sum of h[i] * w[i][j] in the order of i, from 0, every step rounded; w lies in panels of
 * 128 outputs, of which the last may be narrower. Vectors hold outputs, so that no sum is reordered. */
static void multiply_state(float *restrict p, const float *restrict h, const float *restrict w,
                           int32_t k, int32_t n)
{
  for (int32_t b = 0; b < n; b += 128, p += 128, w += 128 * k) {
    const int32_t m = n - b < 128 ? n - b : 128;
    int32_t j = 0;
#if MODEL_F32
    for (; j + 8 * MODEL_F32 <= m; j += 8 * MODEL_F32) {
      model_f32v s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
      const float *at = w + j;
      for (int32_t i = 0; i < k; ++i, at += m) {
        const model_f32v v = SPLAT_F32(h + i);
        s0 = s0 + v * LOAD_F32(at), s1 = s1 + v * LOAD_F32(at + MODEL_F32);
        s2 = s2 + v * LOAD_F32(at + 2 * MODEL_F32), s3 = s3 + v * LOAD_F32(at + 3 * MODEL_F32);
        s4 = s4 + v * LOAD_F32(at + 4 * MODEL_F32), s5 = s5 + v * LOAD_F32(at + 5 * MODEL_F32);
        s6 = s6 + v * LOAD_F32(at + 6 * MODEL_F32), s7 = s7 + v * LOAD_F32(at + 7 * MODEL_F32);
      }
      STORE_F32(p + j, s0), STORE_F32(p + j + MODEL_F32, s1);
      STORE_F32(p + j + 2 * MODEL_F32, s2), STORE_F32(p + j + 3 * MODEL_F32, s3);
      STORE_F32(p + j + 4 * MODEL_F32, s4), STORE_F32(p + j + 5 * MODEL_F32, s5);
      STORE_F32(p + j + 6 * MODEL_F32, s6), STORE_F32(p + j + 7 * MODEL_F32, s7);
    }
#endif
    for (int32_t r = j; r < m; ++r) p[r] = 0.0f;
    const float *at = w;
    for (int32_t i = 0; j < m && i < k; ++i, at += m) {
      const float a = h[i];
      for (int32_t r = j; r < m; ++r) p[r] += a * at[r];
    }
  }
}
