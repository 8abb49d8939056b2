#include "exp_f32.c"
#include "abs_f32.c"
/* exp(x) - 1 as a fixed sequence of float32 operations, without cancellation near 0. */
static float exp_minus_one_f32(float x)
{
  if (abs_f32(x) < @EXP_MINUS_ONE_NEAR@) {
    float p = @EXP_COEFFICIENTS[0]@;
    p = p * x + @EXP_COEFFICIENTS[1:]@;
    return p * (x * x) + x;
  }
  return exp_f32(x) - 1.0f;
}
