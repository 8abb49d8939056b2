#include "exp_512.c"
/* Sigmoid of n vectors, at most three, which may be in place. `part` has the lanes of each. */
#if MODEL_F32 == 16
MODEL_INLINE void sigmoid_512(const float *from, float *to, int32_t n, __mmask16 part)
{
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  model_f32v t[3], scale[3];
  __mmask16 is_inside[3], is_finite[3];
  EACH_512(n) t[j] = _mm512_maskz_loadu_ps(part, from + 16 * j);
  EACH_512(n) t[j] = (model_f32v)((__m512i)t[j] ^ sign);
  EACH_512(n) is_inside[j] = _mm512_cmp_ps_mask(t[j], ALL_F32(@EXP_LOW@), _CMP_NLT_UQ);
  EACH_512(n) is_finite[j] = _mm512_cmp_ps_mask(t[j], ALL_F32(@EXP_HIGH@), _CMP_NGT_UQ);
  exp_reduced_512(t, scale, n);
  EACH_512(n) t[j] = _mm512_maskz_mul_ps(is_inside[j], t[j] + ALL_F32(1.0f), scale[j]);
  EACH_512(n) t[j] = _mm512_maskz_div_ps(is_finite[j], ALL_F32(1.0f), ALL_F32(1.0f) + t[j]);
  EACH_512(n) _mm512_mask_storeu_ps(to + 16 * j, part, t[j]);
}
#endif
