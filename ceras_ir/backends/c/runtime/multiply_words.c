#include "vectors_i8.c"
/* sums[j] = the sum of q[i] * w[j][i]. With 16 lanes w lies in panels of 64 outputs,
 * [n / 64][k / 4][2][4][16][2], so that they hold outputs; q and sums have room for what fills them.
 * Eight sums are computed in parallel, since each addition waits for the previous one. */
static void multiply_words(int32_t *restrict sums, int16_t *restrict q, const int8_t *restrict w,
                           int32_t k, int32_t n)
{
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
}
