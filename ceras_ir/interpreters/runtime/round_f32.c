#include "rint_f32.c"
/* The nearest integer, ties to even; of a zero the zero that it is. */
static float round_f32(float x)
{
  return x == 0.0f ? x : rint_f32(x);
}
