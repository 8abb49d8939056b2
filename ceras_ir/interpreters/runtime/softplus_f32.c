#include "exp_f32.c"
#include "abs_f32.c"
#include "log_f32.c"
static float softplus_f32(float x)
{
  return (x < 0.0f ? 0.0f : x) + log_f32(1.0f + exp_f32(-abs_f32(x)));
}
