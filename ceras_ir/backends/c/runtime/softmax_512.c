#include "exp_512.c"
/* Softmax of at most eight rows of n floats; several rows, because each addition of the last sum of
 * a row waits for the previous one. */
#if MODEL_F32 == 16
#define MASK_512(n) ((__mmask16)((n) >= 16 ? 0xFFFFu : (1u << (n)) - 1u))
/* y = exp(x - most) for n vectors, of which the last has the lanes `part`. Add y to `sum`. Return
 * the lanes that are too close to 0 for quotients by fused products. */
MODEL_INLINE __mmask16 exp_row_512(const float *x, float *y, model_f32v most, __mmask16 part,
                                   model_f32v *sum, int32_t n)
{
  model_f32v t[2], scale[2];
  __mmask16 is_inside[2], small = 0;
  EACH_512(n - 1) t[j] = LOAD_F32(x + 16 * j) - most;
  t[n - 1] = _mm512_maskz_loadu_ps(part, x + 16 * (n - 1)) - most;
  EACH_512(n) is_inside[j] = _mm512_cmp_ps_mask(t[j], ALL_F32(@EXP_LOW@), _CMP_NLT_UQ);
  is_inside[n - 1] &= part;
  EACH_512(n) small |= _mm512_mask_cmp_ps_mask(is_inside[j], t[j], ALL_F32(-69.0f), _CMP_LT_OQ);
  exp_reduced_512(t, scale, n);
  EACH_512(n) t[j] = _mm512_maskz_mul_ps(is_inside[j], t[j] + ALL_F32(1.0f), scale[j]);
  EACH_512(n) *sum += t[j];
  EACH_512(n - 1) STORE_F32(y + 16 * j, t[j]);
  _mm512_mask_storeu_ps(y + 16 * (n - 1), part, t[n - 1]);
  return small;
}

MODEL_TILE void softmax_512(const float *x, float *y, int32_t rows, int32_t n)
{
  const int32_t pairs = n & ~31, rest = n & 31;
  const __mmask16 part = MASK_512(rest > 16 ? rest - 16 : rest);
  float most[8], sums[8][16];
  __mmask16 small[8];
  for (int32_t i = 0; i < rows; ++i) {
    /* NaN may be skipped here: the sum includes it. */
    const float *from = x + i * n;
    model_f32v best = ALL_F32(-INFINITY);
    int32_t k = 0;
    for (; (k + 16) <= n; k += 16) {
      best = _mm512_max_ps(LOAD_F32(from + k), best);
    }
    const __mmask16 lanes = MASK_512(n - k);
    best = _mm512_mask_max_ps(best, lanes, _mm512_maskz_loadu_ps(lanes, from + k), best);
    most[i] = _mm512_reduce_max_ps(best);
  }
  for (int32_t i = 0; i < rows; ++i) {
    const float *from = x + i * n;
    float *to = y + i * n;
    const model_f32v largest = ALL_F32(most[i]);
    model_f32v sum = {0};
    /* Quotients of longer rows may be subnormal. */
    small[i] = n < (1 << 26) ? 0 : 1;
    for (int32_t k = 0; k < pairs; k += 32) {
      small[i] |= exp_row_512(from + k, to + k, largest, 0xFFFF, &sum, 2);
    }
    if (rest > 16) {
      small[i] |= exp_row_512(from + pairs, to + pairs, largest, part, &sum, 2);
    } else if (rest > 0) {
      small[i] |= exp_row_512(from + pairs, to + pairs, largest, part, &sum, 1);
    }
    STORE_F32(sums[i], sum);
  }
  for (int32_t i = 0; i < rows; ++i) {
    float sum = sums[i][0];
    for (int32_t j = 1; j < 16; ++j) {
      sum += sums[i][j];
    }
    most[i] = sum;
  }
  for (int32_t i = 0; i < rows; ++i) {
    float *to = y + i * n;
    const model_f32v sum = ALL_F32(most[i]), inverse = ALL_F32(1.0f / most[i]);
    for (int32_t k = 0; k < n; k += 16) {
      const __mmask16 lanes = MASK_512(n - k);
      const model_f32v e = _mm512_maskz_loadu_ps(lanes, to + k);
      model_f32v q = e * inverse;
      if (small[i]) {
        q = e / sum;
      } else {
        /* The first correction leaves at most a unit of the last place; then the second is the
         * rounded quotient (Markstein). */
        q = FMA(q, FMA(e, -q, sum), inverse);
        q = FMA(q, FMA(e, -q, sum), inverse);
      }
      _mm512_mask_storeu_ps(to + k, lanes, q);
    }
  }
}
#endif
