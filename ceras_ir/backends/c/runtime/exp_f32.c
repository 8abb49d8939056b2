/* exp(x) as a fixed sequence of float32 operations, the same bits on every machine; within 1.4
 * units of the last place. Not a number stays so. */
static float exp_f32(float x)
{
  const int inside = x >= @LOW@ && x <= @HIGH@;
  const float safe = inside ? x : 0.0f;
  const float t = safe * @LOG2_E@ + 0.5f;
  int32_t n = (int32_t)t;
  n -= (float)n > t; /* floor */
  const float r = (safe - (float)n * @LN2_HIGH@) - (float)n * @LN2_LOW@;
  float p = @C0@;
@HORNER@
  union { uint32_t bits; float value; } scale;
  scale.bits = (uint32_t)(n + 127) << 23;
  const float y = ((p * (r * r) + r) + 1.0f) * scale.value;
  return inside ? y : x > @HIGH@ ? INFINITY : x < @LOW@ ? 0.0f : x;
}
