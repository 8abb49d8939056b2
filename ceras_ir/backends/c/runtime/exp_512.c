#include "vectors_f32.c"
/* Functions of several vectors of 16 floats at a time, with the bits of the functions of one float.
 * The operations of a vector wait for each other; those of further vectors fill the gaps. */
#if MODEL_F32 == 16
#include <immintrin.h>
#define EACH_512(n) for (int32_t j = 0; j < (n); ++j)
/* exp(x) is (t + 1) * scale. The argument x is in t at the start. */
MODEL_INLINE void exp_reduced_512(model_f32v *t, model_f32v *scale, int32_t n)
{
  model_f32v sum[3], r[3];
  EACH_512(n) sum[j] = t[j] * ALL_F32(@LOG2_E@) + ALL_F32(@EXP_ROUND@);
  EACH_512(n) scale[j] = sum[j] - ALL_F32(@EXP_ROUND@);
  /* This product is exact, so that a fused product gives the same difference. */
  EACH_512(n) r[j] = FMA(t[j], scale[j], ALL_F32(-@LN2_HIGH@));
  EACH_512(n) r[j] = r[j] - scale[j] * ALL_F32(@LN2_LOW@);
  EACH_512(n) t[j] = ALL_F32(@EXP_COEFFICIENTS[0]@);
  EACH_512(n) t[j] = t[j] * r[j] + ALL_F32(@EXP_COEFFICIENTS[1:]@);
  EACH_512(n) t[j] = t[j] * (r[j] * r[j]) + r[j];
  EACH_512(n) scale[j] = (model_f32v)_mm512_slli_epi32(
    _mm512_add_epi32((__m512i)sum[j], _mm512_set1_epi32(127)), 23);
}
#endif
