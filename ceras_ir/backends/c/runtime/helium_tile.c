#include "helium.c"
/* sums[@WIDTH@ * p + @FILTERS@ * g + f] = the window of position p times filter f of group g, for
 * @POSITIONS@ positions, @PIXEL@ apart, and @FILTERS@ filters: @ROWS@ rows of @VECTORS@ vectors,
 * @PITCH@ apart. In assembler, because the sums need all even registers of the core. */
#if MODEL_HELIUM
__attribute__((naked, noinline))
static void helium_tile_@NAME@(int32_t *sums __attribute__((unused)),
                               const @IN@ *x __attribute__((unused)),
                               const int8_t *w __attribute__((unused)),
                               int32_t groups __attribute__((unused)))
{
  __asm__ volatile(
@STEPS@
  : : : "memory");
}
#else
static void helium_tile_@NAME@(int32_t *sums, const @IN@ *x, const int8_t *w, int32_t groups)
{
  for (int32_t g = 0; g < groups; ++g, w += @GROUP@) {
    for (int32_t p = 0; p < @POSITIONS@; ++p) {
      for (int32_t f = 0; f < @FILTERS@; ++f) {
        const int8_t *filter = w + @FILTER@ * @LANES@;
        uint32_t sum = 0;
        for (int32_t i = 0; i < @ROWS@ * @VECTORS@; ++i, filter += @STORED@ * @LANES@) {
          const @IN@ *from = x + p * @PIXEL@ + i / @VECTORS@ * @PITCH@ + i % @VECTORS@ * @LANES@;
          for (int32_t k = 0; k < @LANES@; ++k) sum += (uint32_t)(from[k] * @WEIGHT@);
        }
        sums[p * @WIDTH@ + g * @FILTERS@ + f] = (int32_t)sum;
      }
    }
  }
}
#endif
