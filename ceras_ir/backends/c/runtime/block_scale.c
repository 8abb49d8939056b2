/* The value of a finite float16. */
MODEL_INLINE float block_scale(uint16_t half)
{
#if defined(__GNUC__) && defined(__aarch64__)
  __fp16 value;
  memcpy(&value, &half, sizeof value);
  return (float)value;
#elif defined(__GNUC__) && defined(__ARM_FP) && __ARM_ARCH_PROFILE == 77
  const uint32_t bits = half;
  float value;
  __asm__("vcvtb.f32.f16 %0, %1" : "=t"(value) : "t"(bits));
  return value;
#else
  const uint32_t magnitude = half & 0x7FFFu, bits = (magnitude << 13) + 0x38000000u;
  float value;
  memcpy(&value, &bits, sizeof value);
  /* The values below 2^-14 are multiples of 2^-24. */
  if (magnitude < 0x400u) value = (float)magnitude / 16777216.0f;
  return half & 0x8000u ? -value : value;
#endif
}
