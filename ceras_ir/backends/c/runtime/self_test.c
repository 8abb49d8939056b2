/* The compiler does not know the result, so operations on it remain. */
MODEL_STATIC float unknown_f32(float x)
{
  volatile float y = x;
  return y;
}

MODEL_STATIC uint32_t bits_f32(float x)
{
  uint32_t bits;
  (void)memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* The header lists the rules. The last rule is tested first, so that the first failure remains. */
int model_self_test(void)
{
  int rule = 0;
  const float one = unknown_f32(1.0f);
  const float large = unknown_f32(1e8f);
  if (((unknown_f32(16777216.0f) + 1.0f) != 16777216.0f) ||
      ((unknown_f32(16777216.0f) + 3.0f) != 16777220.0f) ||
      ((unknown_f32(-16777216.0f) - 1.0f) != -16777216.0f)) {
    rule = 7;
  }
  const float half = unknown_f32(unknown_f32(FLT_MIN) * 0.5f);
  if ((bits_f32(half) != UINT32_C(0x00400000)) || ((half + half) != FLT_MIN)) {
    rule = 6;
  }
  if ((bits_f32(unknown_f32(-0.0f) + 0.0f) != 0U) || (bits_f32(0.0f - unknown_f32(0.0f)) != 0U)) {
    rule = 5;
  }
  const float infinite = large * large * large * large * large;
  const float nan = infinite - infinite;
  const float chosen = (nan > one) ? one : nan;
  if ((infinite < FLT_MAX) || (nan == nan) || (nan <= one) || (nan > one) || (chosen == chosen)) {
    rule = 4;
  }
  /* Products with a reciprocal round differently. */
  const float divisor = unknown_f32(10.0f);
  const float a = unknown_f32(9.0f);
  const float b = unknown_f32(13.0f);
  const float c = unknown_f32(21.0f);
  if (((a / 10.0f) != 0.9f) || ((b / 10.0f) != 1.3f) || ((c / 10.0f) != 2.1f) ||
      ((a / divisor) != 0.9f) || ((b / divisor) != 1.3f) || ((c / divisor) != 2.1f)) {
    rule = 3;
  }
  /* The square of 1 + 2^-12 needs one bit more than float32 has. */
  const float product = unknown_f32(1.000244140625f);
  if (((product * product) - 1.00048828125f) != 0.0f) {
    rule = 2;
  }
  if (((((unknown_f32(1.25f) * 1.44269504f) + 12582912.0f) - 12582912.0f) != 2.0f) ||
      (((one + large) - large) != 0.0f)) {
    rule = 1;
  }
  return rule;
}
