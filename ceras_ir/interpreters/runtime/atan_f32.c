#include "abs_f32.c"
#include "select_f32.c"
/* atan(x) as a fixed sequence of float32 operations. */
static inline float atan_f32(float x)
{
  const float a = abs_f32(x);
  const uint32_t far = -(uint32_t)(a > @COT_EIGHTH@), middle = -(uint32_t)(a > @TAN_EIGHTH@);
  const float t = select_f32(far, -1.0f / a, select_f32(middle, (a - 1.0f) / (a + 1.0f), a));
  const float start = select_f32(far, @HALF_PI@, select_f32(middle, @QUARTER_PI@, 0.0f));
  const float s = t * t;
  float p = @ATAN_COEFFICIENTS[0]@;
  p = p * s + @ATAN_COEFFICIENTS[1:]@;
  const float y = start + (p * s * t + t);
  return select_f32(-(uint32_t)(x < 0.0f), -y, y);
}
