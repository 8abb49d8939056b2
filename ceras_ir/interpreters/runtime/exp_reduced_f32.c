/* t and `scale`, of which exp(x) is (t + 1) * scale: a fixed sequence of float32 operations. Beyond
 * where exp is 0 or infinite they stand for nothing. */
static inline float exp_reduced_f32(float x, float *scale)
{
  union { uint32_t bits; float value; } sum;
  union { uint32_t bits; float value; } power;
  /* A sum of this size has no room for a fraction; its lowest bits are n. */
  sum.value = (x * @LOG2_E@) + @EXP_ROUND@;
  const float n = sum.value - @EXP_ROUND@;
  const float r = (x - (n * @LN2_HIGH@)) - (n * @LN2_LOW@);
  float p = @EXP_COEFFICIENTS[0]@;
  p = (p * r) + @EXP_COEFFICIENTS[1:]@;
  power.bits = (sum.bits + 127u) << 23;
  *scale = power.value;
  return (p * (r * r)) + r;
}
