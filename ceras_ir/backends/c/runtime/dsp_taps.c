#include "dsp_pairs.c"
/* Widens `count` filters of @SIZE@ bytes to words of two vertically adjacent taps, @WORDS@ for a
 * filter. A missing last row is zero. */
static void dsp_taps_@NAME@(uint32_t *restrict to, const int8_t *restrict from, int32_t count)
{
  for (int32_t left = count; left > 0; --left) {
@STEPS@
    to += @WORDS@;
    from += @SIZE@;
  }
}
