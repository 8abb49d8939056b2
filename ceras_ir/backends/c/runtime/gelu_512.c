#include "exp_512.c"
/* GELU of n vectors, at most three, which may be in place. `part` has the lanes of each. Below 1 in
 * magnitude and from 1, erf has polynomials in different variables; each lane evaluates one of them,
 * the second with the opposite sign. */
#if MODEL_F32 == 16
#define ERF_STEP(near, far) \
  EACH_512(n) v[j] = v[j] * t[j] + \
                     (model_f32v)_mm512_mask_blend_ps(is_far[j], ALL_F32(near), ALL_F32(far))
MODEL_INLINE void gelu_512(const float *from, float *to, int32_t n, __mmask16 part)
{
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  model_f32v x[3], t[3], v[3], s[3];
  __mmask16 is_far[3], is_near[3];
  EACH_512(n) x[j] = _mm512_maskz_loadu_ps(part, from + 16 * j) * ALL_F32(@SQRT_OF_HALF@);
  EACH_512(n) s[j] = _mm512_abs_ps(x[j]);
  EACH_512(n) is_near[j] = _mm512_cmp_ps_mask(s[j], ALL_F32(1.0f), _CMP_LT_OQ);
  EACH_512(n) is_far[j] = (__mmask16)~is_near[j];
  /* NaN remains, because the second operand is the result without an order. */
  EACH_512(n) s[j] = _mm512_min_ps(ALL_F32(4.0f), s[j]);
  EACH_512(n) t[j] = _mm512_mask_mul_ps(s[j], is_near[j], s[j], s[j]);
  EACH_512(n) v[j] = t[j] * ALL_F32(-@ERFC_COEFFICIENTS[0]@) + ALL_F32(-@ERFC_COEFFICIENTS[1]@);
  EACH_512(n) v[j] = _mm512_mask_add_ps(ALL_F32(@ERF_COEFFICIENTS[0]@), is_far[j], v[j] * t[j],
                                        ALL_F32(-@ERFC_COEFFICIENTS[2]@));
  ERF_STEP(@ERF_COEFFICIENTS[1]@, -@ERFC_COEFFICIENTS[3]@);
  ERF_STEP(@ERF_COEFFICIENTS[2]@, -@ERFC_COEFFICIENTS[4]@);
  ERF_STEP(@ERF_COEFFICIENTS[3]@, -@ERFC_COEFFICIENTS[5]@);
  ERF_STEP(@ERF_COEFFICIENTS[4]@, -@ERFC_COEFFICIENTS[6]@);
  ERF_STEP(@ERF_COEFFICIENTS[5]@, -@ERFC_COEFFICIENTS[7]@);
  ERF_STEP(@ERF_COEFFICIENTS[6]@, -@ERFC_COEFFICIENTS[8]@);
  ERF_STEP(@ERF_COEFFICIENTS[7]@, -@ERFC_COEFFICIENTS[9]@);
  EACH_512(n) t[j] = v[j];
  exp_reduced_512(t, s, n);
  EACH_512(n) s[j] = ALL_F32(1.0f) - (t[j] + ALL_F32(1.0f)) * s[j];
  /* The sign of x. */
  EACH_512(n) s[j] = (model_f32v)_mm512_ternarylogic_epi32((__m512i)s[j], (__m512i)x[j], sign, 0xF8);
  EACH_512(n) s[j] = _mm512_mask_mul_ps(s[j], is_near[j], x[j], v[j]);
  EACH_512(n) x[j] = ALL_F32(0.5f) * _mm512_maskz_loadu_ps(part, from + 16 * j);
  EACH_512(n) x[j] = x[j] * (ALL_F32(1.0f) + s[j]);
  EACH_512(n) _mm512_mask_storeu_ps(to + 16 * j, part, x[j]);
}
#endif
