#include "exp_f32.c"
#include "abs_f32.c"
#include "log_f32.c"
#include "rint_f32.c"
/* x to the power of y by exp and log; exact for exponents 0, 1 and 2. */
static float power_f32(float x, float y)
{
  if (y == 0.0f) return 1.0f;
  if (y == 1.0f) return x;
  if (y == 2.0f) return x * x;
  const float r = exp_f32(y * log_f32(abs_f32(x)));
  if (!(x < 0.0f)) return r;
  if (rint_f32(y) != y) return NAN;
  const float half = y * 0.5f;
  return rint_f32(half) != half ? -r : r;
}
