#include "helium.c"
/* Copies rows [first, first + rows) of a map of `height` rows of `width` bytes. Each row has `left`
 * and `right` bytes of border; rows outside of the map consist of border. */
static void helium_band(void *band, const void *x, int32_t first, int32_t rows, int32_t height,
                        int32_t width, int32_t left, int32_t right, uint32_t border)
{
  int8_t *to = (int8_t *)band;
  for (int32_t y = first; y < first + rows; ++y, to += left + width + right) {
    if (y >= 0 && y < height) {
      helium_fill(to, border, left);
      helium_copy(to + left, (const int8_t *)x + y * width, width);
      helium_fill(to + left + width, border, right);
    } else {
      helium_fill(to, border, left + width + right);
    }
  }
}
