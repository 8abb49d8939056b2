#include "window.c"
/* sums[c] = the sum of the elements of a window inside of the map minus their zero point, added
 * row-major. Returns the number of elements. */
static int32_t sum_window_@NAME@(@SUM@ *restrict sums, const @IN@ *restrict x,
                          const struct window *g, int32_t position, int32_t zero_point)
{
  const int32_t x0 = (position % g->columns * g->stride_w) - g->left;
  const int32_t y0 = (position / g->columns % g->rows * g->stride_h) - g->top;
  const int32_t image = position / (g->columns * g->rows) * g->height;
  const int32_t top = first_tap(y0, g->dilation_h);
  const int32_t left = first_tap(x0, g->dilation_w);
  const int32_t bottom = end_tap(y0, g->dilation_h, g->height, g->kernel_h);
  const int32_t right = end_tap(x0, g->dilation_w, g->width, g->kernel_w);
  (void)zero_point;
  MODEL_CHANNELS
  for (int32_t c = 0; c < g->channels; ++c) {
    sums[c] = 0;
  }
  for (int32_t ky = top; ky < bottom; ++ky) {
    for (int32_t kx = left; kx < right; ++kx) {
      const int32_t row = image + y0 + (ky * g->dilation_h);
      const int32_t pixel = (row * g->width) + x0 + (kx * g->dilation_w);
      const @IN@ *tap = &x[pixel * g->channels];
      MODEL_CHANNELS
      for (int32_t c = 0; c < g->channels; ++c) {
        sums[c] += tap[c]@CENTRE@;
      }
    }
  }
  return ((bottom > top) && (right > left)) ? ((bottom - top) * (right - left)) : 0;
}
