/* Pairs of 16-bit numbers in a word: add two products to a sum, and extract bytes 0 and 2 (even) or
 * 1 and 3 (odd) of a word as a pair. Other cores run the same in plain C. */
static inline uint32_t dsp_read(const int8_t *from)
{
  uint32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return bytes;
}
/* Reads aligned constants, of which two neighbors load in a single instruction. */
static inline uint32_t dsp_read_constant(const int8_t *from)
{
#if defined(__GNUC__)
  from = (const int8_t *)__builtin_assume_aligned(from, 4);
#endif
  return dsp_read(from);
}
#if defined(__ARM_FEATURE_DSP)
/* All registers are in use: variables of a caller, or loads that -O2 moves up, would spill them. */
#define DSP_LOOP __attribute__((noinline))
#if defined(__OPTIMIZE_SIZE__)
#define DSP_IN_ORDER ((void)0)
#else
#define DSP_IN_ORDER __asm__ volatile("" : : : "memory")
#endif
static inline int32_t dsp_smlad(uint32_t a, uint32_t b, int32_t sum)
{
  __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}
static inline uint32_t dsp_even(uint32_t bytes)
{
  uint32_t pair;
  __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(bytes));
  return pair;
}
static inline uint32_t dsp_odd(uint32_t bytes)
{
  uint32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
  return pair;
}
#else
#define DSP_LOOP
#define DSP_IN_ORDER ((void)0)
static inline int32_t dsp_smlad(uint32_t a, uint32_t b, int32_t sum)
{
  const int32_t low = (int16_t)(a & 0xffff) * (int16_t)(b & 0xffff);
  const int32_t high = (int16_t)(a >> 16) * (int16_t)(b >> 16);
  return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
}
static inline uint32_t dsp_even(uint32_t bytes)
{
  const uint32_t low = (uint16_t)(int8_t)(bytes & 0xff);
  return low | (uint32_t)(uint16_t)(int8_t)(bytes >> 16 & 0xff) << 16;
}
static inline uint32_t dsp_odd(uint32_t bytes) { return dsp_even(bytes >> 8); }
#endif
