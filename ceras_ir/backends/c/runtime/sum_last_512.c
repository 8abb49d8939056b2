#include "turn_512.c"
/* Sums of at most 16 rows of n floats, each in the order of elements: each lane adds a row, of which
 * 16 columns at a time are transposed. */
#if MODEL_F32 == 16
MODEL_TILE void sum_last_512(const float *x, float *y, int32_t rows, int32_t n)
{
  const float *from[16];
  /* The first addition leaves the bits of an element. */
  __m512 sum = _mm512_set1_ps(-0.0f), v[16];
  int32_t k = 0;
  for (int32_t j = 0; j < 16; ++j) {
    from[j] = x + (j < rows ? j : rows - 1) * n;
  }
  for (; (k + 16) <= n; k += 16) {
    for (int32_t j = 0; j < 16; ++j) {
      v[j] = _mm512_loadu_ps(from[j] + k);
    }
    turn_512(v);
    for (int32_t j = 0; j < 16; ++j) {
      sum = _mm512_add_ps(sum, v[j]);
    }
  }
  if (k < n) {
    const __mmask16 lanes = (__mmask16)((1u << (n - k)) - 1u);
    for (int32_t j = 0; j < 16; ++j) {
      v[j] = _mm512_maskz_loadu_ps(lanes, from[j] + k);
    }
    turn_512(v);
    for (int32_t j = 0; j < (n - k); ++j) {
      sum = _mm512_add_ps(sum, v[j]);
    }
  }
  _mm512_mask_storeu_ps(y, (__mmask16)(rows < 16 ? (1u << rows) - 1u : 0xFFFFu), sum);
}
#endif
