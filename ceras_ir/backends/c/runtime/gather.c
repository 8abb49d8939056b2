#include "window.c"
/* Copies window number `position` to a contiguous row of `length` elements: `taken` channels for
 * each tap, `border` for taps outside of the map, zeros after the last tap. */
static void gather_@NAME@(@ROW@ *restrict row, int32_t length, const @IN@ *restrict x,
                   const struct window *g, int32_t position, int32_t taken, @ROW@ border)
{
  const int32_t x0 = (position % g->columns * g->stride_w) - g->left;
  const int32_t y0 = (position / g->columns % g->rows * g->stride_h) - g->top;
  const int32_t image = position / (g->columns * g->rows) * g->height;
  const int32_t first = first_tap(x0, g->dilation_w);
  const int32_t end = end_tap(x0, g->dilation_w, g->width, g->kernel_w);
  const int32_t dense = (g->dilation_w == 1) && (taken == g->channels);
  int32_t filled = 0;
  for (int32_t ky = 0; ky < g->kernel_h; ++ky) {
    const int32_t y = y0 + (ky * g->dilation_h);
    const int32_t inside = (y >= 0) && (y < g->height) && (first < end);
    const int32_t before = (inside ? first : g->kernel_w) * taken;
    for (int32_t i = 0; i < before; ++i) {
      row[filled + i] = border;
    }
    filled += before;
    if (!inside) {
      continue;
    }
    const int32_t pixel = ((image + y) * g->width) + x0 + (first * g->dilation_w);
    const @IN@ *from = &x[pixel * g->channels];
    const int32_t runs = dense ? 1 : (end - first);
    const int32_t run = dense ? ((end - first) * taken) : taken;
    for (int32_t t = 0; t < runs; ++t) {
      const @IN@ *tap = &from[t * g->dilation_w * g->channels];
      for (int32_t i = 0; i < run; ++i) {
        row[filled + i] = (@ROW@)(tap[i]@SHIFT@);
      }
      filled += run;
    }
    const int32_t after = (g->kernel_w - end) * taken;
    for (int32_t i = 0; i < after; ++i) {
      row[filled + i] = border;
    }
    filled += after;
  }
  for (; filled < length; ++filled) {
    row[filled] = 0;
  }
}
