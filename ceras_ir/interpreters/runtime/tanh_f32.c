#include "exp_minus_one_f32.c"
static inline float tanh_f32(float x)
{
  const float t = exp_minus_one_f32(-2.0f * abs_f32(x)), y = t / (t + 2.0f);
  return select_f32(-(uint32_t)(x < 0.0f), y, -y);
}
