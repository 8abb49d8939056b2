#include "helium.c"
/* y[@TOTAL@ * r + o] = the output stage of sums[@WIDTH@ * r + o] for `rows` rows of `n` outputs. */
static HELIUM_CALL void helium_finish_@NAME@(@OUT@ *restrict y, const int32_t *restrict sums, int32_t rows,
                                             int32_t n@PARAMETERS@)
{
  for (int32_t r = 0; r < rows; ++r, y += @TOTAL@, sums += @WIDTH@@NEXT@) {
#if MODEL_HELIUM
    int32_t o = 0;
@BLOCKS@@REST@
#else
    for (int32_t i = 0; i < @COUNT@; ++i) {
      const int32_t o = @CHANNEL@;
@PORTABLE@
    }
#endif
  }
}
