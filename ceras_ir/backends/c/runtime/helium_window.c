#include "helium.c"
#include "window.c"
/* y[c] = the @WHAT@ of the elements of a window inside of the map, from @START@. Returns the number
 * of elements. */
static int32_t helium_window_@NAME@(@OUT@ *restrict y, const int8_t *restrict x,
                                  const struct window *g, int32_t position, int32_t value)
{
  const int32_t x0 = position % g->columns * g->stride_w - g->left;
  const int32_t y0 = position / g->columns % g->rows * g->stride_h - g->top;
  const int32_t image = position / (g->columns * g->rows) * g->height;
  const int32_t top = first_tap(y0, g->dilation_h), left = first_tap(x0, g->dilation_w);
  const int32_t bottom = end_tap(y0, g->dilation_h, g->height, g->kernel_h);
  const int32_t right = end_tap(x0, g->dilation_w, g->width, g->kernel_w);
  const int32_t count = bottom > top && right > left ? (bottom - top) * (right - left) : 0;
  const int32_t start = @START@;
  const int32_t step = g->dilation_w * g->channels;
  for (int32_t c = 0; c < g->channels; c += @LANES@) {
#if MODEL_HELIUM
    const mve_pred16_t p = @PREDICATE@((uint32_t)(g->channels - c));
    @VECTOR@ total = @DUP@((@OUT@)start);
#else
    const int32_t lanes = g->channels - c < @LANES@ ? g->channels - c : @LANES@;
    for (int32_t i = 0; i < lanes; ++i) y[c + i] = (@OUT@)start;
#endif
    for (int32_t ky = top; ky < bottom; ++ky) {
      const int8_t *tap = x + ((image + y0 + ky * g->dilation_h) * g->width + x0
                               + left * g->dilation_w) * g->channels + c;
      for (int32_t kx = left; kx < right; ++kx, tap += step) {
#if MODEL_HELIUM
        total = @ADD@(total, @LOAD@(tap, p));
#else
        for (int32_t i = 0; i < lanes; ++i) y[c + i] = @PORTABLE@;
#endif
      }
    }
#if MODEL_HELIUM
    @STORE@(y + c, total, p);
#endif
  }
  return count;
}
