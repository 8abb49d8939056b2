#include "dsp.c"
/* Widens `count` bytes, a multiple of four, to pairs of 16-bit numbers: the even pair of each four,
 * then the odd pair. */
static void dsp_widen(uint32_t *restrict to, const int8_t *restrict from, int32_t count)
{
  for (int32_t left = count >> 2; left > 0; --left, to += 2, from += 4) {
    uint32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    to[0] = dsp_even(bytes);
    to[1] = dsp_odd(bytes);
  }
}
