#include "exp_f32.c"
#include "abs_f32.c"
#include "select_f32.c"
/* exp(x) - 1 without cancellation near 0, where the scale is 1. */
static inline float exp_minus_one_f32(float x)
{
  const uint32_t near = -(uint32_t)(abs_f32(x) < @EXP_MINUS_ONE_NEAR@);
  float scale;
  const float t = exp_reduced_f32(x, &scale);
  return select_f32(near, t, exp_f32(x) - 1.0f);
}
