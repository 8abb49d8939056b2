#include "dsp.c"
/* Copies @ROWS@ rows of @BYTES@ bytes, @PITCH@ apart, one after another. */
static inline void dsp_window_@NAME@(int8_t *restrict to, const int8_t *restrict from)
{
  for (int32_t row = 0; row < @ROWS@; ++row, to += @BYTES@, from += @PITCH@) {
    int32_t i = 0;
    for (; i + 4 <= @BYTES@; i += 4) {
      const uint32_t bytes = dsp_read(from + i);
      memcpy(to + i, &bytes, sizeof bytes);
    }
    for (; i < @BYTES@; ++i) to[i] = from[i];
  }
}
