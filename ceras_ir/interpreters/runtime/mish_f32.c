#include "exp_f32.c"
static float mish_f32(float x)
{
  const float e = exp_f32(x > 20.0f ? 20.0f : x), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}
