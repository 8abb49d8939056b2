#include "dsp.c"
/* Sums and differences of two pairs of 16-bit numbers, the pair of their low halves, and the pair
 * of their high halves. */
#if defined(__ARM_FEATURE_DSP)
static inline uint32_t dsp_add(uint32_t a, uint32_t b)
{
  __asm__("sadd16 %0, %0, %1" : "+r"(a) : "r"(b));
  return a;
}
static inline uint32_t dsp_sub(uint32_t a, uint32_t b)
{
  __asm__("ssub16 %0, %0, %1" : "+r"(a) : "r"(b));
  return a;
}
static inline uint32_t dsp_low(uint32_t a, uint32_t b)
{
  __asm__("pkhbt %0, %0, %1, lsl #16" : "+r"(a) : "r"(b));
  return a;
}
static inline uint32_t dsp_high(uint32_t a, uint32_t b)
{
  __asm__("pkhtb %0, %1, %0, asr #16" : "+r"(a) : "r"(b));
  return a;
}
#else
static inline uint32_t dsp_add(uint32_t a, uint32_t b)
{
  return ((a + b) & 0xffff) | ((a & 0xffff0000u) + (b & 0xffff0000u));
}
static inline uint32_t dsp_sub(uint32_t a, uint32_t b)
{
  return ((a - b) & 0xffff) | ((a & 0xffff0000u) - (b & 0xffff0000u));
}
static inline uint32_t dsp_low(uint32_t a, uint32_t b) { return (a & 0xffff) | b << 16; }
static inline uint32_t dsp_high(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }
#endif
