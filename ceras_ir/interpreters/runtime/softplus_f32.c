#include "exp_f32.c"
#include "abs_f32.c"
#include "log_f32.c"
/* max(x, 0) + log(1 + exp(-|x|)); the last term is the rounding error of the sum u. */
static float softplus_f32(float x)
{
  const float e = exp_f32(-abs_f32(x)), u = 1.0f + e;
  return (x < 0.0f ? 0.0f : x) + (log_f32(u) + (e - (u - 1.0f)));
}
