#include "round_f32.c"
static float floor_f32(float x)
{
  const float r = round_f32(x);
  return r > x ? r - 1.0f : r;
}
