#include "dsp.c"
/* `count` bytes, a multiple of four, as pairs of 16-bit numbers: of each four the even pair, then
 * the odd one. */
static void dsp_widen(uint32_t *restrict to, const int8_t *restrict from, int32_t count)
{
  for (int32_t left = count >> 2; left > 0; --left, to += 2, from += 4) {
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    to[0] = dsp_even(bytes);
    to[1] = dsp_odd(bytes);
  }
}
