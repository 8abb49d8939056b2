#include "window.c"
/* y[c] = the largest element of a window inside of the map, at least `least`. */
static void max_window_@NAME@(@IN@ *restrict y, const @IN@ *restrict x, const struct window *g,
                       int32_t position, @IN@ least)
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
    y[c] = least;
  }
  for (int32_t ky = top; ky < bottom; ++ky) {
    for (int32_t kx = left; kx < right; ++kx) {
      const int32_t row = image + y0 + (ky * g->dilation_h);
      const int32_t pixel = (row * g->width) + x0 + (kx * g->dilation_w);
      const @IN@ *tap = &x[pixel * g->channels];
      MODEL_CHANNELS
      for (int32_t c = 0; c < g->channels; ++c) {
        y[c] = (tap[c] > y[c]@OR_NAN@) ? tap[c] : y[c];
      }
    }
  }
}
