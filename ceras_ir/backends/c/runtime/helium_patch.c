#include "helium.c"
/* Copies windows of @ROWS@ rows of @BYTES@ bytes, @PITCH@ apart, one after another. Vectors also
 * copy bytes behind a row, which the next row or weights of zero replace. */
static inline void helium_patch_@NAME@(void *patch, const void *window)
{
  int8_t *to = (int8_t *)patch;
  const int8_t *from = (const int8_t *)window;
  for (int32_t row = 0; row < @ROWS@; ++row, to += @BYTES@, from += @PITCH@) {
#if MODEL_HELIUM
    for (int32_t i = 0; i < @BYTES@; i += 16) vstrbq_s8(to + i, vldrbq_s8(from + i));
#else
    memcpy(to, from, @BYTES@);
#endif
  }
}
