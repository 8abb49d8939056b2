#include "exp_256.c"
/* Sigmoid of two vectors, which may be in place. */
#if MODEL_F32 == 8
MODEL_INLINE void sigmoid_256(const float *from, float *to)
{
  model_f32v t[2], scale[2];
  model_mask is_outside[2], is_infinite[2];
  PAIR_256 t[j] = (model_f32v)(BITS_256(LOAD_F32(from + 8 * j)) ^ INT32_MIN);
  PAIR_256 is_outside[j] = t[j] < ALL_F32(@EXP_LOW@);
  PAIR_256 is_infinite[j] = t[j] > ALL_F32(@EXP_HIGH@);
  exp_reduced_256(t, scale);
  PAIR_256 t[j] = KEPT_256(~is_outside[j], (t[j] + ALL_F32(1.0f)) * scale[j]);
  PAIR_256 t[j] = KEPT_256(~is_infinite[j], ALL_F32(1.0f) / (ALL_F32(1.0f) + t[j]));
  PAIR_256 STORE_F32(to + 8 * j, t[j]);
}
#endif
