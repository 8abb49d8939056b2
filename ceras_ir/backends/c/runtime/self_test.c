/* The compiler does not know the result, so operations on it remain. */
MODEL_STATIC float unknown_f32(float x)
{
  volatile float y = x;
  return y;
}

/* The header lists the rules. */
int model_self_test(void)
{
  union { float value; uint32_t bits; } u;
  const float one = unknown_f32(1.0f), large = unknown_f32(1e8f), divisor = unknown_f32(10.0f);
  if ((unknown_f32(1.25f) * 1.44269504f + 12582912.0f) - 12582912.0f != 2.0f) return 1;
  if ((one + large) - large != 0.0f) return 1;
  /* The square of 1 + 2^-12 needs one bit more than float32 has. */
  const float product = unknown_f32(1.000244140625f);
  if (product * product - 1.00048828125f != 0.0f) return 2;
  /* Products with a reciprocal round differently. */
  const float a = unknown_f32(9.0f), b = unknown_f32(13.0f), c = unknown_f32(21.0f);
  if (a / 10.0f != 0.9f || b / 10.0f != 1.3f || c / 10.0f != 2.1f) return 3;
  const float x = a / divisor, y = b / divisor, z = c / divisor;
  if (x != 0.9f || y != 1.3f || z != 2.1f) return 3;
  const float infinite = large * large * large * large * large, nan = infinite - infinite;
  const float chosen = nan > one ? one : nan;
  if (infinite < FLT_MAX || nan == nan || nan <= one || nan > one || chosen == chosen) return 4;
  u.value = unknown_f32(-0.0f) + 0.0f;
  if (u.bits != 0) return 5;
  u.value = 0.0f - unknown_f32(0.0f);
  if (u.bits != 0) return 5;
  u.value = unknown_f32(FLT_MIN) * 0.5f;
  if (u.bits != UINT32_C(0x00400000)) return 6;
  if (unknown_f32(u.value) + unknown_f32(u.value) != FLT_MIN) return 6;
  if (unknown_f32(16777216.0f) + 1.0f != 16777216.0f) return 7;
  if (unknown_f32(16777216.0f) + 3.0f != 16777220.0f) return 7;
  if (unknown_f32(-16777216.0f) - 1.0f != -16777216.0f) return 7;
  return 0;
}
