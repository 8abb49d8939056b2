#include "winograd_f32.c"
/* Transforms 16 filters for a part of the channels, in a panel of which taps are `tap` apart, and
 * channels `width`: G filter G'. */
#if MODEL_F32 == 8
MODEL_TILE void winograd_f32_block(float *restrict u, int32_t pitch, const float *restrict w,
                                   int32_t tap, int32_t channels, int32_t width)
{
  for (int32_t i = 0; i < channels; ++i) {
    for (int32_t o = 0; o < 16; o += MODEL_F32) {
      const float *at = w + i * width + o;
      float *to = u + i * 16 + o;
      FILTER_ROW(0);
      FILTER_ROW(1);
      FILTER_ROW(2);
      model_f32v h, m;
      FILTER_COLUMN(0, p), FILTER_COLUMN(1, q), FILTER_COLUMN(2, r), FILTER_COLUMN(3, s);
    }
  }
}
#endif
