#include "window.c"
/* sums[c] = the sum of the elements of a window inside of the map: each row from left to right,
 * then the rows from the top, all from 0. Returns the number of elements. */
static int32_t sum_rows(float *restrict sums, float *restrict row,
                        const float *restrict x, const struct window *g, int32_t position)
{
  const int32_t x0 = (position % g->columns * g->stride_w) - g->left;
  const int32_t y0 = (position / g->columns % g->rows * g->stride_h) - g->top;
  const int32_t image = position / (g->columns * g->rows) * g->height;
  const int32_t top = first_tap(y0, g->dilation_h);
  const int32_t left = first_tap(x0, g->dilation_w);
  const int32_t bottom = end_tap(y0, g->dilation_h, g->height, g->kernel_h);
  const int32_t right = end_tap(x0, g->dilation_w, g->width, g->kernel_w);
  MODEL_CHANNELS
  for (int32_t c = 0; c < g->channels; ++c) {
    sums[c] = 0;
  }
  for (int32_t ky = top; ky < bottom; ++ky) {
    MODEL_CHANNELS
    for (int32_t c = 0; c < g->channels; ++c) {
      row[c] = 0;
    }
    for (int32_t kx = left; kx < right; ++kx) {
      const int32_t line = image + y0 + (ky * g->dilation_h);
      const int32_t pixel = (line * g->width) + x0 + (kx * g->dilation_w);
      const float *tap = &x[pixel * g->channels];
      MODEL_CHANNELS
      for (int32_t c = 0; c < g->channels; ++c) {
        row[c] += tap[c];
      }
    }
    MODEL_CHANNELS
    for (int32_t c = 0; c < g->channels; ++c) {
      sums[c] += row[c];
    }
  }
  return ((bottom > top) && (right > left)) ? ((bottom - top) * (right - left)) : 0;
}
