#include "dsp_pairs.c"
/* Expands weights of @BITS@ bits to pairs of 16 bits in the order of `dsp_widen`. */
static void dsp_expand_@NAME@(uint32_t *restrict to, const uint32_t *restrict from, int32_t count)
{
  for (int32_t left = count; left > 0; --left) {
@LOADS@
@STEPS@
    to += @WORDS@;
    from += @PACKED@;
  }
}
