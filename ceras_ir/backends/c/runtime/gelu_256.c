#include "exp_256.c"
/* GELU of two vectors, which may be in place. Below 1 in magnitude and from 1, erf has polynomials in
 * different variables; each lane evaluates one of them, the second with the opposite sign. */
#if MODEL_F32 == 8
#define ERF_STEP_256(near, far) \
  PAIR_256 v[j] = v[j] * t[j] + CHOSEN_256(is_near[j], ALL_F32(near), ALL_F32(far))
MODEL_INLINE void gelu_256(const float *from, float *to)
{
  model_f32v x[2], t[2], v[2], s[2];
  model_mask is_near[2];
  PAIR_256 x[j] = LOAD_F32(from + 8 * j) * ALL_F32(@SQRT_OF_HALF@);
  PAIR_256 s[j] = (model_f32v)(BITS_256(x[j]) & INT32_MAX);
  PAIR_256 is_near[j] = s[j] < ALL_F32(1.0f);
  /* NaN remains. */
  PAIR_256 s[j] = AT_MOST(s[j], ALL_F32(4.0f));
  PAIR_256 t[j] = CHOSEN_256(is_near[j], s[j] * s[j], s[j]);
  PAIR_256 v[j] = t[j] * ALL_F32(-@ERFC_COEFFICIENTS[0]@) + ALL_F32(-@ERFC_COEFFICIENTS[1]@);
  PAIR_256 v[j] = CHOSEN_256(is_near[j], ALL_F32(@ERF_COEFFICIENTS[0]@),
                             v[j] * t[j] + ALL_F32(-@ERFC_COEFFICIENTS[2]@));
  ERF_STEP_256(@ERF_COEFFICIENTS[1]@, -@ERFC_COEFFICIENTS[3]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[2]@, -@ERFC_COEFFICIENTS[4]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[3]@, -@ERFC_COEFFICIENTS[5]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[4]@, -@ERFC_COEFFICIENTS[6]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[5]@, -@ERFC_COEFFICIENTS[7]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[6]@, -@ERFC_COEFFICIENTS[8]@);
  ERF_STEP_256(@ERF_COEFFICIENTS[7]@, -@ERFC_COEFFICIENTS[9]@);
  PAIR_256 t[j] = v[j];
  exp_reduced_256(t, s);
  PAIR_256 s[j] = ALL_F32(1.0f) - (t[j] + ALL_F32(1.0f)) * s[j];
  /* The sign of x. */
  PAIR_256 s[j] = (model_f32v)(BITS_256(s[j]) | (BITS_256(x[j]) & INT32_MIN));
  PAIR_256 s[j] = CHOSEN_256(is_near[j], x[j] * v[j], s[j]);
  PAIR_256 x[j] = ALL_F32(0.5f) * LOAD_F32(from + 8 * j);
  PAIR_256 STORE_F32(to + 8 * j, x[j] * (ALL_F32(1.0f) + s[j]));
}
#endif
