#include "lookup_block.c"
/* The function `lookup_channels_@NAME@` with vector instructions. */
MODEL_STATIC void lookup_blocks_@NAME@(@Y@ *y, const int8_t *x, const @LOW@ *low, const int8_t *high,
                                const int32_t *first, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* For fewer rows, a loop over the elements is faster. */
  enum { HAS_HIGH = sizeof(@Y@) == 2, LEAST_ROWS = 4 };
  const int32_t width = lookup_width(channels), rows = n / width;
  for (int32_t at = 0; rows >= LEAST_ROWS && at < width; at += 64) {
    struct lookup_block block;
    begin_block(&block, width, at, first, channels);
    for (int32_t row = 0; row < rows; row += 16) {
      model_bytes lower[16], upper[16];
      block.rows = rows - row < 16 ? rows - row : 16;
      load_rows(lower, x + row * width, &block);
      if (HAS_HIGH) {
        for (int32_t k = 0; k < 16; ++k) upper[k] = lower[k];
        look_up_rows(upper, high, &block);
      }
      look_up_rows(lower, low, &block);
      if (HAS_HIGH)
        store_words((int16_t *)y + row * width, lower, upper, &block);
      else
        store_bytes((int8_t *)y + row * width, lower, &block);
    }
    done = rows * width;
  }
#endif
  lookup_channels_@NAME@(y + done, x + done, low, high, first, channels, n - done);
}
