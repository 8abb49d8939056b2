#include "dsp.c"
#include "dsp_pairs.c"
/* (2G) g (2G)^T of two filters g of 3x3, 16 runs of @WORDS@ words of each filter in turn. `from`
 * holds nine taps of four channels of the first filter, then of the second. Rows of 2G are (2, 0,
 * 0), (1, 1, 1), (1, -1, 1) and (0, 0, 2), so results are within [-1152, 1152]. */
static void dsp_winograd_weights_@NAME@(uint32_t *restrict to, const int8_t *restrict from)
{
  for (int32_t word = 0; word < @WORDS@; ++word, from += 36) {
    uint32_t t[2][4][3];
    for (int32_t j = 0; j < 3; ++j) {
      const uint32_t b0 = dsp_read_constant(from + 4 * j);
      const uint32_t b1 = dsp_read_constant(from + 4 * j + 12);
      const uint32_t b2 = dsp_read_constant(from + 4 * j + 24);
      const uint32_t e0 = dsp_even(b0), e1 = dsp_even(b1), e2 = dsp_even(b2);
      const uint32_t o0 = dsp_odd(b0), o1 = dsp_odd(b1), o2 = dsp_odd(b2);
      const uint32_t e = dsp_add(e0, e2), o = dsp_add(o0, o2);
      t[0][0][j] = dsp_add(e0, e0), t[0][3][j] = dsp_add(e2, e2);
      t[0][1][j] = dsp_add(e, e1), t[0][2][j] = dsp_sub(e, e1);
      t[1][0][j] = dsp_add(o0, o0), t[1][3][j] = dsp_add(o2, o2);
      t[1][1][j] = dsp_add(o, o1), t[1][2][j] = dsp_sub(o, o1);
    }
    /* Words of four channels, alternating between the two filters. */
    uint32_t *at = to + 4 * (word >> 1) + (word & 1);
    for (int32_t i = 0; i < 4; ++i, at += 8 * @WORDS@) {
      for (int32_t odd = 0; odd < 2; ++odd) {
        const uint32_t *g = t[odd][i];
        const uint32_t g0 = g[0], g1 = g[1], g2 = g[2], ends = dsp_add(g0, g2);
        at[2 * odd] = dsp_add(g0, g0), at[2 * odd + 6 * @WORDS@] = dsp_add(g2, g2);
        at[2 * odd + 2 * @WORDS@] = dsp_add(ends, g1);
        at[2 * odd + 4 * @WORDS@] = dsp_sub(ends, g1);
      }
    }
  }
}
