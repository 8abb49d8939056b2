/* exp(x) as a fixed sequence of float32 operations, the same bits on every machine; within 1.4
 * units of the last place. Not a number stays one. */
static inline float exp_f32(float x)
{
  /* Masks where branches would do: so loops over this function become vectors. */
  const uint32_t below = -(uint32_t)(x < @EXP_LOW@), above = -(uint32_t)(x > @EXP_HIGH@);
  union { uint32_t bits; float value; } safe, sum, scale;
  safe.value = x;
  safe.bits &= ~(below | above);
  /* A sum of this size has no room for a fraction; its lowest bits are n. */
  sum.value = safe.value * @LOG2_E@ + @EXP_ROUND@;
  const float n = sum.value - @EXP_ROUND@;
  const float r = (safe.value - n * @LN2_HIGH@) - n * @LN2_LOW@;
  float p = @EXP_COEFFICIENTS[0]@;
  p = p * r + @EXP_COEFFICIENTS[1:]@;
  scale.bits = (((sum.bits + 127u) << 23) & ~below) | (above & 0x7F800000u);
  return ((p * (r * r) + r) + 1.0f) * scale.value;
}
