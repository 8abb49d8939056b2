#include "rint_f32.c"
static float floor_f32(float x)
{
  const float r = rint_f32(x);
  return r > x ? r - 1.0f : r;
}
