#include "erf_f32.c"
static float gelu_f32(float x)
{
  return 0.5f * x * (1.0f + erf_f32(x * @SQRT_OF_HALF@));
}
