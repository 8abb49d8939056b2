#include "vectors_f32.c"
/* Functions of two vectors of 8 floats at a time, with the bits of the functions of one float. */
#if MODEL_F32 == 8
#include <immintrin.h>
#define PAIR_256 for (int32_t j = 0; j < 2; ++j)
#define BITS_256(v) ((model_mask)(v))
#define KEPT_256(mask, v) ((model_f32v)(BITS_256(mask) & BITS_256(v)))
#define CHOSEN_256(mask, a, b) ((model_f32v)_mm256_blendv_ps(b, a, (__m256)(mask)))
/* exp(x) is (t + 1) * scale. The argument x is in t at the start. */
MODEL_INLINE void exp_reduced_256(model_f32v *t, model_f32v *scale)
{
  model_f32v sum[2], r[2];
  PAIR_256 sum[j] = t[j] * ALL_F32(@LOG2_E@) + ALL_F32(@EXP_ROUND@);
  PAIR_256 scale[j] = sum[j] - ALL_F32(@EXP_ROUND@);
  /* This product is exact, so that a fused product gives the same difference. */
  PAIR_256 r[j] = FMA(t[j], scale[j], ALL_F32(-@LN2_HIGH@));
  PAIR_256 r[j] = r[j] - scale[j] * ALL_F32(@LN2_LOW@);
  PAIR_256 t[j] = ALL_F32(@EXP_COEFFICIENTS[0]@);
  PAIR_256 t[j] = t[j] * r[j] + ALL_F32(@EXP_COEFFICIENTS[1:]@);
  PAIR_256 t[j] = t[j] * (r[j] * r[j]) + r[j];
  PAIR_256 scale[j] = (model_f32v)_mm256_slli_epi32(
    _mm256_add_epi32((__m256i)sum[j], _mm256_set1_epi32(127)), 23);
}
#endif
