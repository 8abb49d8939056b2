#include "exp_f32.c"
#include "abs_f32.c"
/* erf(x) as a fixed sequence of float32 operations, the same bits on every machine; within 2.4
 * units of the last place. Not a number stays so. */
static float erf_f32(float x)
{
  const float b = abs_f32(x), a = b > 4.0f ? 4.0f : b, s = a * a;
  if (b < 1.0f) {
    float p = @ERF_COEFFICIENTS[0]@;
    p = p * s + @ERF_COEFFICIENTS[1:]@;
    return x * p;
  }
  float q = @ERFC_COEFFICIENTS[0]@;
  q = q * a + @ERFC_COEFFICIENTS[1:]@;
  const float t = 1.0f - exp_f32(-q);
  return x < 0.0f ? -t : t;
}
