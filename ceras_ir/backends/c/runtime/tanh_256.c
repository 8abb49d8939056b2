#include "exp_256.c"
/* Tanh of two vectors, which may be in place. */
#if MODEL_F32 == 8
MODEL_INLINE void tanh_256(const float *from, float *to)
{
  model_f32v x[2], t[2], scale[2];
  model_mask is_outside[2], is_near[2];
  PAIR_256 x[j] = LOAD_F32(from + 8 * j);
  PAIR_256 t[j] = (model_f32v)(BITS_256(x[j]) & INT32_MAX) * ALL_F32(-2.0f);
  PAIR_256 is_outside[j] = t[j] < ALL_F32(@EXP_LOW@);
  PAIR_256 is_near[j] = t[j] > ALL_F32(-@EXP_MINUS_ONE_NEAR@);
  exp_reduced_256(t, scale);
  PAIR_256 scale[j] = KEPT_256(~is_outside[j], (t[j] + ALL_F32(1.0f)) * scale[j]);
  PAIR_256 t[j] = CHOSEN_256(is_near[j], t[j], scale[j] - ALL_F32(1.0f));
  PAIR_256 t[j] = t[j] / (t[j] + ALL_F32(2.0f));
  PAIR_256 t[j] = (model_f32v)(BITS_256(t[j]) ^ (~(x[j] < ALL_F32(0.0f)) & INT32_MIN));
  PAIR_256 STORE_F32(to + 8 * j, t[j]);
}
#endif
