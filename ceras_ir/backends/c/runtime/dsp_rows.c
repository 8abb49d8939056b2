#include "dsp_widen.c"
/* Four outputs: sums[r] = bias[r] + x . weights[r] over `words` words of four products, a multiple
 * of @TAKEN@. x is widened, and weights hold a word of each row in turn. */
static DSP_LOOP void dsp_rows_@NAME@(int32_t *restrict sums, const uint32_t *restrict x,
                                const int8_t *restrict weights, int32_t words,
                                const int32_t *restrict bias)
{
  int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
  const uint32_t *const end = x + 2 * words;
  do {
@STEPS@
    x += 2 * @TAKEN@;
    weights += 16 * @TAKEN@;
  } while (x != end);
  sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}
