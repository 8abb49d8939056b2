/* The square root, correctly rounded: by the processor's instruction, as no library is asked, or
 * bit by bit. */
static inline float sqrt_f32(float x)
{
  if (!(x > 0.0f) || x == INFINITY) return x < 0.0f ? NAN : x;
#if defined(__GNUC__) && \
  (defined(__SSE__) || defined(__aarch64__) || defined(__riscv_flen) || (__ARM_FP & 4))
  float root;
#if defined(__AVX__)
  __asm__("vsqrtss %1, %1, %0" : "=x"(root) : "x"(x));
#elif defined(__SSE__)
  __asm__("sqrtss %1, %0" : "=x"(root) : "x"(x));
#elif defined(__aarch64__)
  __asm__("fsqrt %s0, %s1" : "=w"(root) : "w"(x));
#elif defined(__riscv_flen)
  __asm__("fsqrt.s %0, %1" : "=f"(root) : "f"(x));
#else
  __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
#endif
  return root;
#else
  union { float value; uint32_t bits; } u;
  const int tiny = x < 1.17549435e-38f;
  u.value = tiny ? (x * 16777216.0f) : x;
  int32_t e = (int32_t)(u.bits >> 23) - 127;
  uint64_t m = (u.bits & 0x007FFFFFu) | 0x00800000u;
  if (e & 1) {
    m <<= 1;
    --e;
  }
  /* m * 2^25 has 49 or 50 bits: its root has 25, one more than the result. */
  m <<= 25;
  uint64_t root = 0;
  for (uint64_t bit = UINT64_C(1) << 24; bit != 0U; bit >>= 1) {
    if (((root + bit) * (root + bit)) <= m) {
      root += bit;
    }
  }
  /* A tie would be an exact root of 25 bits that is odd, and its square would be odd as well. */
  u.bits = (uint32_t)((root + 1U) >> 1) + ((uint32_t)((e / 2) + 126 - (tiny ? 12 : 0)) << 23);
  return u.value;
#endif
}
