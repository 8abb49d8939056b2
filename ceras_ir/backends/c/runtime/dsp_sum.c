#include "dsp.c"
/* The sum of `words` words of two numbers. */
static int32_t dsp_sum(const uint32_t *x, int32_t words)
{
  int32_t sum = 0;
  for (; words > 0; --words) sum = dsp_smlad(*x++, 0x00010001, sum);
  return sum;
}
