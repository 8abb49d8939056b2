/* Copies 4x4 pixels of `channels` bytes from row `top` and column `left`, with border outside of
 * the map. */
static void dsp_patch(int8_t *restrict to, const int8_t *restrict x, int32_t top, int32_t left,
                      int32_t height, int32_t width, int32_t channels, int8_t border)
{
  for (int32_t i = 0; i < 16; ++i, to += channels) {
    const int32_t row = top + (i >> 2), column = left + (i & 3);
    if (row >= 0 && row < height && column >= 0 && column < width) {
      memcpy(to, x + (row * width + column) * channels, (size_t)channels);
    } else {
      memset(to, border, (size_t)channels);
    }
  }
}
