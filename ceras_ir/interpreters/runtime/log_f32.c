/* log(x) as a fixed sequence of float32 operations, the same bits on every machine; within 0.9
 * units of the last place. -infinity at 0, not a number below it. */
static float log_f32(float x)
{
  const int inside = x > 0.0f && x < INFINITY;
  const float safe = inside ? x : 1.0f;
  const int tiny = safe < 1.17549435e-38f;
  union { float value; uint32_t bits; } u;
  u.value = tiny ? safe * 33554432.0f : safe;
  int32_t e = (int32_t)(u.bits >> 23) - 126 - (tiny ? 25 : 0);
  u.bits = (u.bits & 0x007FFFFFu) | 0x3F000000u;
  float m = u.value;
  if (m < @SQRT_HALF@) {
    m += m;
    --e;
  }
  const float n = (float)e, r = m - 1.0f;
  float p = @LOG_COEFFICIENTS[0]@;
  p = p * r + @LOG_COEFFICIENTS[1:]@;
  const float y = (((p * (r * r * r) + n * @LN2_LOW@) - 0.5f * (r * r)) + r) + n * @LN2_HIGH@;
  return inside ? y : x < 0.0f ? NAN : x == 0.0f ? -INFINITY : x;
}
