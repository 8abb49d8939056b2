#include "split_words.c"
#if MODEL_AMX
/* Copies `rows` rows of feature maps from row `first`, each as `columns` pixels from column
 * -`left`, with `border` outside of the map. */
static void split_halo(uint8_t *restrict low, int32_t plane, const int16_t *restrict x,
                       int32_t rows, int32_t first, int32_t left, int32_t columns, int32_t height,
                       int32_t width, int32_t channels, int16_t border)
{
  const int32_t outside = (left < columns) ? left : columns;
  const int32_t inside = ((left + width) < columns) ? width : (columns - outside);
  const int32_t before = outside * channels;
  const int32_t run = inside * channels;
  const int32_t pitch = columns * channels;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t y = first + r;
    const int is_inside = (y >= 0) && (y < height);
    const int32_t start = is_inside ? before : pitch;
    const int32_t end = is_inside ? (before + run) : pitch;
    (void)memset(low, (uint8_t)border, (size_t)start);
    (void)memset(low + plane, (uint8_t)((uint16_t)border >> 8), (size_t)start);
    if (is_inside) {
      split_words(low + start, plane, &x[y * width * channels], run);
    }
    (void)memset(low + end, (uint8_t)border, (size_t)(pitch - end));
    (void)memset(low + plane + end, (uint8_t)((uint16_t)border >> 8), (size_t)(pitch - end));
    low += pitch;
  }
}
#endif
