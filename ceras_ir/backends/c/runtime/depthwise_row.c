#include "window.c"
/* sums[p * channels + c] = the window of position p of an output row times filter c, for stride 1:
 * a tap is a shift of the row. Weights are repeated for each position. */
MODEL_TILE void depthwise_row_@NAME@(int32_t *restrict sums, const @IN@ *restrict x,
                                     const int8_t *restrict w, const struct window *g, int32_t row,
                                     int32_t zero_point)
{
  const int32_t n = g->columns * g->channels;
  const int32_t y0 = (row % g->rows * g->stride_h) - g->top;
  const @IN@ *image = &x[row / g->rows * g->height * g->width * g->channels];
  (void)zero_point;
  for (int32_t i = 0; i < n; ++i) {
    sums[i] = 0;
  }
  for (int32_t ky = 0; ky < g->kernel_h; ++ky) {
    const int32_t y = y0 + (ky * g->dilation_h);
    for (int32_t kx = 0; kx < g->kernel_w; ++kx) {
      if ((y >= 0) && (y < g->height)) {
        const int32_t shift = (kx * g->dilation_w) - g->left;
        const int32_t first = (shift < 0) ? -shift : 0;
        const int32_t end = ((g->width - shift) < g->columns) ? (g->width - shift) : g->columns;
        const @IN@ *from = &image[((y * g->width) + first + shift) * g->channels];
        const int32_t start = first * g->channels;
        const int32_t count = (end - first) * g->channels;
        for (int32_t i = 0; i < count; ++i) {
          sums[start + i] += (int16_t)(from[i]@CENTRE@) * w[start + i];
        }
      }
      w += n;
    }
  }
}
