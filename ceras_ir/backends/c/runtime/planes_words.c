#include "turn_words.c"
/* The same for bytes, with four planes interleaved and a multiple of four channels: word by word,
 * or 16 words of 16 adjacent positions at a time. Only the latter permutes channels. */
MODEL_COPY void planes_words_@NAME@(unsigned char *restrict to, int32_t plane,
                                  const void *restrict map, int32_t rows, int32_t columns,
                                  int32_t shared, int32_t pitch, int32_t down, int32_t along, int32_t top,
                                  int32_t left, int32_t height, int32_t width, int32_t channels,
                                  int32_t border, const uint8_t *order)
{
  (void)order;
  const unsigned char *x = (const unsigned char *)map;
  const uint32_t outside = (uint32_t)(border & 255) * 0x01010101u;
  const int32_t words = channels / 4;
  int32_t first = left < 0 ? (along - 1 - left) / along : 0;
  int32_t end = left < width ? (width - left + along - 1) / along : 0;
  end = end < columns ? end : columns;
  first = first < end ? first : end;
  to += plane * pitch;
  for (int32_t r = 0; r <= rows; ++r, to += 4 * columns) {
    const int32_t y = top + r * down, count = r < rows ? columns : shared;
    const int is_inside = r < rows && y >= 0 && y < height;
    const int32_t start = is_inside ? first : count, stop = is_inside ? end : count;
    for (int32_t i = 0; i < count; ++i) {
      unsigned char *at = to + 4 * i;
      if (i >= start && i < stop) {
        const unsigned char *from = x + (y * width + left + i * along) * channels;
#if MODEL_LANES == 16
        if (words >= 16 && stop - start >= 16) {
          const int32_t back = i + 16 > stop ? i + 16 - stop : 0;
          from -= back * along * channels, at -= 4 * back;
          for (int32_t c = 0;; c = c + 32 > words ? words - 16 : c + 16) {
            turn_words(from + 4 * c, along * words, at + 4 * c * pitch, pitch, @FLIP@,
                       order ? order + 8 * c : 0);
            if (c + 16 == words) break;
          }
          i += 15 - back;
          continue;
        }
#endif
        for (int32_t c = 0; c < words; ++c, at += 4 * pitch, from += 4) {
          uint32_t word;
          memcpy(&word, from, 4);
          word ^= (uint32_t)@FLIP@;
          memcpy(at, &word, 4);
        }
      } else {
        for (int32_t c = 0; c < words; ++c, at += 4 * pitch) memcpy(at, &outside, 4);
      }
    }
  }
}
