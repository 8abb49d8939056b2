#include "exp_f32.c"
#include "abs_f32.c"
#include "select_f32.c"
/* exp(x) - 1 as a fixed sequence of float32 operations, without cancellation near 0. */
static inline float exp_minus_one_f32(float x)
{
  const uint32_t near = -(uint32_t)(abs_f32(x) < @EXP_MINUS_ONE_NEAR@);
  float p = @EXP_COEFFICIENTS[0]@;
  p = p * x + @EXP_COEFFICIENTS[1:]@;
  return select_f32(near, p * (x * x) + x, exp_f32(x) - 1.0f);
}
