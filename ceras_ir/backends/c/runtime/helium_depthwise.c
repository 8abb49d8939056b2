#include "helium.c"
/* sums = a window of @TAPS@ taps times its filters, for @BLOCKS@ blocks of @LANES@ channels. */
#if MODEL_HELIUM
__attribute__((naked, noinline))
static void helium_depthwise_@NAME@(int32_t *sums __attribute__((unused)),
                                    const @IN@ *x __attribute__((unused)),
                                    const int8_t *w __attribute__((unused)))
{
  __asm__ volatile(
@STEPS@
  : : : "memory");
}
#else
static void helium_depthwise_@NAME@(int32_t *restrict sums, const @IN@ *restrict x,
                                    const int8_t *restrict w)
{
  for (int32_t b = 0; b < @BLOCKS@; ++b, x += @LANES@, w += @LANES@ * @STORED@) {
    for (int32_t i = 0; i < @LANES@; ++i) {
      const int32_t channel = @CHANNEL@;
      uint32_t sum = 0;
      for (int32_t t = 0; t < @TAPS@; ++t) {
        const int32_t at = t / @COLUMNS@ * @PITCH@ + t % @COLUMNS@ * @CHANNELS@;
        sum += (uint32_t)(x[at + channel] * @WEIGHT@);
      }
      *sums++ = (int32_t)sum;
    }
  }
}
#endif
