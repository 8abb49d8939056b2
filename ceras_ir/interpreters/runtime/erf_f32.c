#include "exp_f32.c"
#include "abs_f32.c"
#include "select_f32.c"
/* erf(x) as a fixed sequence of float32 operations, the same bits on every machine; within 2.4
 * units of the last place. Not a number stays so. */
static inline float erf_f32(float x)
{
  const float b = abs_f32(x), a = select_f32(-(uint32_t)(b > 4.0f), 4.0f, b), s = a * a;
  float p = @ERF_COEFFICIENTS[0]@;
  p = p * s + @ERF_COEFFICIENTS[1:]@;
  float q = @ERFC_COEFFICIENTS[0]@;
  q = q * a + @ERFC_COEFFICIENTS[1:]@;
  const float t = 1.0f - exp_f32(-q);
  const float tail = select_f32(-(uint32_t)(x < 0.0f), -t, t);
  return select_f32(-(uint32_t)(b < 1.0f), x * p, tail);
}
