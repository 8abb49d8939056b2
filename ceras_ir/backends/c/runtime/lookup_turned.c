#include "turned_block.c"
/* The function `lookup_rows_@NAME@` with vector instructions. 64 rows of 64 channels are transposed,
 * so that a vector has 64 elements of a channel. */
MODEL_STATIC void lookup_turned_@NAME@(@Y@ *restrict y, const int16_t *restrict x,
                                const @Y@ *restrict table, const int32_t *restrict first,
                                int32_t half, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* For fewer rows, gathers are faster. */
  enum { HAS_HIGH = sizeof(@Y@) == 2, LEAST_ROWS = 16 };
  const int32_t width = lookup_width(channels), rows = n / width;
  const __m512i lowest = _mm512_set1_epi16((short)-half);
  const __m512i highest = _mm512_set1_epi16((short)(half - 1));
  for (int32_t at = 0; rows >= LEAST_ROWS && at < width; at += 64) {
    struct lookup_block block;
    begin_block(&block, width, at, first, channels);
    for (int32_t row = 0; row < rows; row += 64) {
      model_bytes low[64] __attribute__((aligned(64))), upper[64] __attribute__((aligned(64)));
      const int32_t taken = rows - row < 64 ? rows - row : 64;
      for (int32_t k = 0; k < 64; k += 16) {
        for (int32_t r = k; r < k + 16; ++r) {
          const int32_t from = row + (r < taken ? r : taken - 1);
          load_indices(low + r, upper + r, x + from * width, &block, lowest, highest);
        }
        turn_bytes(low + k);
        turn_bytes(upper + k);
      }
      for (int32_t k = 0; k < 16; ++k) {
        turn_parts(low + k);
        turn_parts(upper + k);
        for (int32_t i = 0; i < 4; ++i) {
          const int32_t v = k + 16 * i;
          const @Y@ *part = table + block.first[16 * i + k] - half;
          if (HAS_HIGH)
            turned_words((const int16_t *)part, half / 32, low + v, upper + v);
          else
            low[v] = look_up_parts(low[v], upper[v], (const int8_t *)part, half / 64, ~(uint64_t)0);
        }
        turn_parts(low + k);
        if (HAS_HIGH) turn_parts(upper + k);
      }
      for (int32_t k = 0; k < taken; k += 16) {
        block.rows = taken - k < 16 ? taken - k : 16;
        turn_bytes(low + k);
        if (HAS_HIGH) {
          turn_bytes(upper + k);
          store_words((int16_t *)y + (row + k) * width, low + k, upper + k, &block);
        } else {
          store_bytes((int8_t *)y + (row + k) * width, low + k, &block);
        }
      }
    }
    done = rows * width;
  }
#endif
  lookup_rows_@NAME@(y + done, x + done, table, first, half, channels, n - done);
}
