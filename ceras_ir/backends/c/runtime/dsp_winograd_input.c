#include "dsp.c"
#include "dsp_pairs.c"
/* B^T d B of a patch d of 4x4 pixels, `across` bytes apart in a row and `down` bytes between rows,
 * as pairs of 16-bit numbers: 16 runs of @WORDS@ words, of which each fourth belongs to this patch.
 * A row of B^T adds or subtracts two elements, so results are within [-512, 512]. */
static void dsp_winograd_input_@NAME@(uint32_t *restrict to, const int8_t *restrict from,
                                      int32_t across, int32_t down)
{
  for (int32_t word = 0; word < @WORDS@; word += 2, from += 4, to += 8) {
    uint32_t t[2][4][4];
    const int8_t *column = from;
    for (int32_t j = 0; j < 4; ++j, column += across) {
      const uint32_t d0 = dsp_read(column), d1 = dsp_read(column + down);
      const uint32_t d2 = dsp_read(column + 2 * down), d3 = dsp_read(column + 3 * down);
      const uint32_t e1 = dsp_even(d1), e2 = dsp_even(d2), o1 = dsp_odd(d1), o2 = dsp_odd(d2);
      t[0][0][j] = dsp_sub(dsp_even(d0), e2), t[1][0][j] = dsp_sub(dsp_odd(d0), o2);
      t[0][1][j] = dsp_add(e1, e2), t[1][1][j] = dsp_add(o1, o2);
      t[0][2][j] = dsp_sub(e2, e1), t[1][2][j] = dsp_sub(o2, o1);
      t[0][3][j] = dsp_sub(e1, dsp_even(d3)), t[1][3][j] = dsp_sub(o1, dsp_odd(d3));
    }
    uint32_t *at = to;
    for (int32_t i = 0; i < 4; ++i, at += 16 * @WORDS@) {
      for (int32_t odd = 0; odd < 2; ++odd) {
        const uint32_t *row = t[odd][i];
        const uint32_t d0 = row[0], d1 = row[1], d2 = row[2], d3 = row[3];
        at[4 * odd] = dsp_sub(d0, d2);
        at[4 * odd + 4 * @WORDS@] = dsp_add(d1, d2);
        at[4 * odd + 8 * @WORDS@] = dsp_sub(d2, d1);
        at[4 * odd + 12 * @WORDS@] = dsp_sub(d1, d3);
      }
    }
  }
}
