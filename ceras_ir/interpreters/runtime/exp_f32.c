/* exp(x) as a fixed sequence of float32 operations, the same bits on every machine; within 1.4
 * units of the last place. Not a number stays so. */
static inline float exp_f32(float x)
{
  /* Masks where branches would do: so loops over this function become vectors. */
  const uint32_t below = -(uint32_t)(x < @EXP_LOW@), above = -(uint32_t)(x > @EXP_HIGH@);
  const uint32_t strange = -(uint32_t)(x != x), outside = below | above | strange;
  union { uint32_t bits; float value; } given, safe, scale, y;
  given.value = x;
  safe.bits = given.bits & ~outside;
  const float t = safe.value * @LOG2_E@ + 0.5f;
  int32_t n = (int32_t)t;
  n -= (float)n > t; /* floor */
  const float r = (safe.value - (float)n * @LN2_HIGH@) - (float)n * @LN2_LOW@;
  float p = @EXP_COEFFICIENTS[0]@;
  p = p * r + @EXP_COEFFICIENTS[1:]@;
  scale.bits = (uint32_t)(n + 127) << 23;
  y.value = ((p * (r * r) + r) + 1.0f) * scale.value;
  y.bits = (y.bits & ~outside) | (above & 0x7F800000u) | (strange & given.bits);
  return y.value;
}
