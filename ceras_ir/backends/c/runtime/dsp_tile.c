#include "dsp.c"
/* sums[2 * p + c] = bias[c] + the window of position p times filter c, for four positions, @PIXEL@
 * words apart, and two filters: @HEIGHT@ rows of @ROW@ words, @PITCH@ apart. */
static DSP_LOOP void dsp_tile_@NAME@(int32_t *restrict sums, const uint32_t *restrict x,
                                  const uint32_t *restrict w, const int32_t *restrict bias)
{
  int32_t a0 = bias[0], b0 = bias[1], a1 = a0, b1 = b0, a2 = a0, b2 = b0, a3 = a0, b3 = b0;
  for (int32_t y = @HEIGHT@; y > 0; --y, x += @PITCH@ - @ROW@) {
    const uint32_t *const end = x + @ROW@;
    do {
@STEPS@
      x += @TAKEN@;
      w += 2 * @TAKEN@;
    } while (x != end);
  }
  sums[0] = a0, sums[1] = b0, sums[2] = a1, sums[3] = b1;
  sums[4] = a2, sums[5] = b2, sums[6] = a3, sums[7] = b3;
}
