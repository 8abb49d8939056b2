#include "dsp.c"
/* Widens `groups` groups of four rows of `count` bytes, a multiple of four, and interleaves them by
 * words. The last group begins at row `last`. */
static void dsp_columns(uint32_t *restrict to, const int8_t *restrict from, int32_t groups,
                        int32_t last, int32_t count)
{
  for (int32_t group = 0; group < groups; ++group, to += 2 * count) {
    const int8_t *row = from + (4 * group < last ? 4 * group : last) * count;
    for (int32_t i = 0; i < 4; ++i) {
      uint32_t *at = to + i;
      for (const int8_t *const end = row + count; row != end; row += 4, at += 8) {
        const uint32_t bytes = dsp_read(row);
        at[0] = dsp_even(bytes), at[4] = dsp_odd(bytes);
      }
    }
  }
}
