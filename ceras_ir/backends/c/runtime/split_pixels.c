#include "split_words.c"
#if MODEL_AMX
/* Copies the pixels from `first` of a strided window of a single pixel, of `columns` columns. */
static void split_pixels(uint8_t *restrict low, int32_t plane, const int16_t *restrict x,
                         int32_t first, int32_t count, int32_t columns, int32_t row,
                         int32_t column, int32_t channels)
{
  int32_t r = first / columns;
  int32_t c = first % columns;
  for (int32_t p = 0; p < count; ++p) {
    split_words(low + (p * channels), plane, x + (r * row) + (c * column), channels);
    if (++c == columns) {
      c = 0;
      ++r;
    }
  }
}
#endif
