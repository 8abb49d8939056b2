/* v / 2^@SHIFT@, rounded down and clamped to [@LOW@, @HIGH@]. */
static inline int32_t dsp_narrow_@NAME@(int32_t v)
{
#if defined(__ARM_FEATURE_DSP)
  __asm__("@INSTRUCTION@" : "=r"(v) : "r"(v));
  return v;
#else
  v >>= @SHIFT@;
  return v < @LOW@ ? @LOW@ : v > @HIGH@ ? @HIGH@ : v;
#endif
}
