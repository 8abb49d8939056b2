#include "dsp.c"
/* Widens pixels of @CHANNELS@ bytes, padded to @PADDED@ so that a word belongs to a single pixel.
 * The padding is multiplied by weights of zero. */
static void dsp_band_padded_@NAME@(uint32_t *restrict band, const int8_t *restrict x, int32_t first,
                                   int32_t rows, int32_t height, int32_t width, int32_t left,
                                   int32_t columns, int8_t border)
{
  for (int32_t y = first; y < first + rows; ++y) {
    for (int32_t i = -left; i < columns - left; ++i) {
      int8_t pixel[@PADDED@];
      memset(pixel, border, sizeof pixel);
      if (y >= 0 && y < height && i >= 0 && i < width) {
        memcpy(pixel, x + (y * width + i) * @CHANNELS@, @CHANNELS@);
      }
      for (int32_t c = 0; c < @PADDED@; c += 4) {
        const uint32_t bytes = dsp_read(pixel + c);
        *band++ = dsp_even(bytes);
        *band++ = dsp_odd(bytes);
      }
    }
  }
}
