#include "select_f32.c"
/* log(x) as a fixed sequence of float32 operations, the same bits on every machine; within 0.9
 * units of the last place. -infinity at 0, not a number below it. */
static inline float log_f32(float x)
{
  const uint32_t inside = -(uint32_t)(x > 0.0f) & -(uint32_t)(x < INFINITY);
  const float safe = select_f32(inside, x, 1.0f);
  const uint32_t tiny = -(uint32_t)(safe < 1.17549435e-38f);
  union { float value; uint32_t bits; } u;
  u.value = select_f32(tiny, safe * 33554432.0f, safe);
  int32_t e = (int32_t)(u.bits >> 23) - 126 - (int32_t)(tiny & 25u);
  u.bits = (u.bits & 0x007FFFFFu) | 0x3F000000u;
  const uint32_t low = -(uint32_t)(u.value < @SQRT_HALF@);
  const float m = select_f32(low, u.value + u.value, u.value);
  e -= (int32_t)(low & 1u);
  const float n = (float)e, r = m - 1.0f;
  float p = @LOG_COEFFICIENTS[0]@;
  p = p * r + @LOG_COEFFICIENTS[1:]@;
  const float y = (((p * (r * r * r) + n * @LN2_LOW@) - 0.5f * (r * r)) + r) + n * @LN2_HIGH@;
  const float below = select_f32(-(uint32_t)(x < 0.0f), NAN, -INFINITY);
  const float outside = select_f32(-(uint32_t)(x <= 0.0f), below, x);
  return select_f32(inside, y, outside);
}
