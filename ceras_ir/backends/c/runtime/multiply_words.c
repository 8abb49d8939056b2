#include "vectors_i8.c"
#include "vectors_256.c"
/* sums[j] = the sum of q[i] * w[j][i]. For vectors, w is in panels of 64 outputs, as [n / 64][k /
 * 2][64][2], so that vectors hold outputs; k is padded to a multiple of 4, and q and sums have
 * space for the padding. Eight sums are computed in parallel, because each addition waits for the
 * previous one. */
static void multiply_words(int32_t *restrict sums, int16_t *restrict q, const int8_t *restrict w,
                           int32_t k, int32_t n)
{
#if MODEL_LANES
  while (k % 4) q[k++] = 0;
#endif
#if MODEL_LANES == 16
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
#elif MODEL_LANES
  for (int32_t j = 0; j < n; j += 64) {
    model_256 s0 = ALL_256(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int32_t i = 0; i < k; i += 2, w += 128) {
      const model_256 x = SPLAT_256(q + i);
      s0 = DOT_WORDS_256(s0, x, LOAD_WORDS_256(w)), s1 = DOT_WORDS_256(s1, x, LOAD_WORDS_256(w + 16));
      s2 = DOT_WORDS_256(s2, x, LOAD_WORDS_256(w + 32)), s3 = DOT_WORDS_256(s3, x, LOAD_WORDS_256(w + 48));
      s4 = DOT_WORDS_256(s4, x, LOAD_WORDS_256(w + 64)), s5 = DOT_WORDS_256(s5, x, LOAD_WORDS_256(w + 80));
      s6 = DOT_WORDS_256(s6, x, LOAD_WORDS_256(w + 96)), s7 = DOT_WORDS_256(s7, x, LOAD_WORDS_256(w + 112));
    }
    STORE_256(sums + j, s0), STORE_256(sums + j + 8, s1);
    STORE_256(sums + j + 16, s2), STORE_256(sums + j + 24, s3);
    STORE_256(sums + j + 32, s4), STORE_256(sums + j + 40, s5);
    STORE_256(sums + j + 48, s6), STORE_256(sums + j + 56, s7);
  }
#else
  @DOT@(1, n, k, q, w, sums);
#endif
}
