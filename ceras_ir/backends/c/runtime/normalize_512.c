#include "turn_512.c"
#include "sqrt_f32.c"
/* Normalization of at most 16 rows of n floats. Each lane adds a row, in the order of elements, of
 * which 16 columns at a time are transposed. */
#if MODEL_F32 == 16
/* Add the elements or, if `squared`, the squares of the differences from `means`. */
MODEL_INLINE __m512 row_sums_512(const float *const *from, int32_t n, const float *means,
                                 int32_t squared)
{
  /* The addition of -0 leaves the bits of an element. */
  const __m512 nothing = _mm512_set1_ps(-0.0f);
  __m512 sum = nothing, v[16];
  for (int32_t k = 0; k < n; k += 16) {
    const __mmask16 lanes = MASK_F32(n - k);
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 16; ++j) {
      v[j] = _mm512_mask_loadu_ps(nothing, lanes, from[j] + k);
      if (squared) {
        v[j] = _mm512_sub_ps(v[j], _mm512_set1_ps(means[j]));
        v[j] = _mm512_mask_mul_ps(nothing, lanes, v[j], v[j]);
      }
    }
    turn_512(v);
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 16; ++j) {
      sum = _mm512_add_ps(sum, v[j]);
    }
  }
  return sum;
}

MODEL_TILE void normalize_512(const float *x, float *y, const float *scale, const float *bias,
                              int32_t rows, int32_t n, int32_t centred, float epsilon)
{
  const float *from[16];
  float means[16] = {0}, deviations[16];
  const __m512 count = _mm512_set1_ps((float)n);
  for (int32_t j = 0; j < 16; ++j) {
    from[j] = x + (j < rows ? j : rows - 1) * n;
  }
  if (centred) {
    _mm512_storeu_ps(means, _mm512_div_ps(row_sums_512(from, n, means, 0), count));
  }
  const __m512 power = _mm512_div_ps(row_sums_512(from, n, means, 1), count);
  _mm512_storeu_ps(deviations, _mm512_add_ps(power, _mm512_set1_ps(epsilon)));
  for (int32_t r = 0; r < rows; ++r) {
    const float deviation = sqrt_f32(deviations[r]);
    const model_f32v d = ALL_F32(deviation), inverse = ALL_F32(1.0f / deviation);
    const int is_normal = (deviation > 1e-18f) && (deviation < 1e18f);
    const __m512 middle = _mm512_set1_ps(means[r]);
    for (int32_t k = 0; k < n; k += 16) {
      const __mmask16 lanes = MASK_F32(n - k);
      __m512 c = _mm512_maskz_loadu_ps(lanes, from[r] + k);
      c = centred ? _mm512_sub_ps(c, middle) : c;
      /* Fused products may round differently near 0, and lose the sign of 0. */
      const __m512 least = _mm512_set1_ps(1e-18f);
      const __mmask16 small = _mm512_cmp_ps_mask(_mm512_abs_ps(c), least, _CMP_LT_OQ);
      model_f32v q = (model_f32v)c * inverse;
      if (is_normal && !(small & lanes)) {
        /* The first correction leaves at most a unit of the last place; then the second is the
         * rounded quotient (Markstein). */
        q = FMA(q, FMA((model_f32v)c, -q, d), inverse);
        q = FMA(q, FMA((model_f32v)c, -q, d), inverse);
      } else {
        q = (model_f32v)c / d;
      }
      q = q * (model_f32v)_mm512_maskz_loadu_ps(lanes, scale + k);
      if (bias) {
        q = q + (model_f32v)_mm512_maskz_loadu_ps(lanes, bias + k);
      }
      _mm512_mask_storeu_ps(y + r * n + k, lanes, (__m512)q);
    }
  }
}
#endif
