#include "vectors_f32.c"
#include "window.c"
/* y = bias plus the sum over the taps inside of x[tap] * weights[tap], for `count` positions
 * from `position` on of a window with one filter per channel; MODEL_F32 channels at least. */
#if MODEL_F32 && !MODEL_RVV
MODEL_TILE void depthwise_edge_f32(float *restrict y, const float *restrict x,
                                   const float *restrict weights, const float *restrict bias,
                                   const struct window *g, int32_t position, int32_t count)
{
  const int32_t channels = g->channels;
  for (int32_t p = position; p < position + count; ++p) {
    const int32_t x0 = p % g->columns * g->stride_w - g->left;
    const int32_t y0 = p / g->columns % g->rows * g->stride_h - g->top;
    const int32_t image = p / (g->columns * g->rows) * g->height;
    const int32_t top = first_tap(y0, g->dilation_h), left = first_tap(x0, g->dilation_w);
    const int32_t bottom = end_tap(y0, g->dilation_h, g->height, g->kernel_h);
    const int32_t right = end_tap(x0, g->dilation_w, g->width, g->kernel_w);
    for (int32_t b = 0; b < channels; b += MODEL_F32) {
      /* The last vector begins earlier, so that it is whole. */
      const int32_t c = b < channels - MODEL_F32 ? b : channels - MODEL_F32;
      model_f32v s = LOAD_F32(bias + c);
      for (int32_t ky = top; ky < bottom; ++ky) {
        const int32_t row = (image + y0 + ky * g->dilation_h) * g->width + x0;
        for (int32_t kx = left; kx < right; ++kx) {
          const float *tap = x + (row + kx * g->dilation_w) * channels + c;
          s = FMA(s, LOAD_F32(tap), LOAD_F32(weights + (ky * g->kernel_w + kx) * channels + c));
        }
      }
      STORE_F32(y + p * channels + c, s);
    }
  }
}
#endif
