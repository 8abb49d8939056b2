/* The same of bytes, four planes interleaved, where channels come in fours: word by word. */
MODEL_COPY void planes_words_@NAME@(unsigned char *restrict to, int32_t plane,
                                  const void *restrict map, int32_t rows, int32_t columns,
                                  int32_t pitch, int32_t down, int32_t along, int32_t top,
                                  int32_t left, int32_t height, int32_t width, int32_t channels,
                                  int32_t border)
{
  const unsigned char *x = (const unsigned char *)map;
  const uint32_t outside = (uint32_t)(border & 255) * 0x01010101u;
  const int32_t words = channels / 4;
  to += plane * pitch;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t y = top + r * down;
    for (int32_t i = 0; i < columns; ++i, to += 4) {
      const int32_t column = left + i * along;
      unsigned char *at = to;
      if (y >= 0 && y < height && column >= 0 && column < width) {
        const unsigned char *from = x + (y * width + column) * channels;
        for (int32_t c = 0; c < words; ++c, at += 4 * pitch, from += 4) {
          uint32_t word;
          memcpy(&word, from, 4);
          word = word@SHIFT@;
          memcpy(at, &word, 4);
        }
      } else {
        for (int32_t c = 0; c < words; ++c, at += 4 * pitch) memcpy(at, &outside, 4);
      }
    }
  }
}
