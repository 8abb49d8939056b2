#include "dsp_widen.c"
/* Widens rows [first, first + rows) of a map of `height` rows of `width` words of four bytes. Each
 * row has `left` and `right` words of border; rows outside of the map consist of border. */
static void dsp_band(uint32_t *restrict band, const int8_t *restrict x, int32_t first, int32_t rows,
                     int32_t height, int32_t width, int32_t left, int32_t right, uint32_t border)
{
  for (int32_t y = first; y < first + rows; ++y) {
    const int32_t inside = y >= 0 && y < height;
    const int32_t before = 2 * (inside ? left : left + width);
    for (int32_t i = 0; i < before; ++i) *band++ = border;
    if (inside) {
      dsp_widen(band, x + y * width * 4, width * 4);
      band += width * 2;
    }
    for (int32_t i = 0; i < 2 * right; ++i) *band++ = border;
  }
}
