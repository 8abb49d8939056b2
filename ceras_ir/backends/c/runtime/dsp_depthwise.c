#include "dsp.c"
/* sums[p] = bias + the window of position p of a channel times the filter, for @COUNT@ adjacent
 * positions: @PAIRS@ pairs of rows of @COLUMNS@ words, @PITCH@ words apart. */
static inline void dsp_depthwise_@NAME@(int32_t *restrict sums, const uint32_t *restrict x,
                                        const uint32_t *restrict w, int32_t bias)
{
@STEPS@
}
