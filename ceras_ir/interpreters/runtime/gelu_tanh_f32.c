#include "tanh_f32.c"
static float gelu_tanh_f32(float x)
{
  return 0.5f * x * (1.0f + tanh_f32(@SQRT_2_OVER_PI@ * (x + 0.044715f * (x * x * x))));
}
