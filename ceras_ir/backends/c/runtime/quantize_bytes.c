#include "quantize_state.c"
#if MODEL_LANES == 16
/* Quantizes states like quantize_state, to bytes that include the zero point. */
static float quantize_bytes(uint8_t *restrict q, int32_t *restrict point, const float *restrict h,
                            int32_t batch, int32_t k, int32_t pitch)
{
  float first;
  const float scale = scale_of_states(h, batch * k, &first);
  const int32_t moved = -(int32_t)first;
  for (int32_t b = 0; b < batch; ++b) {
    for (int32_t i = 0; i < k; ++i) {
      q[i] = (uint8_t)(round_within(h[i] / scale, first, first + 255.0f) + moved);
    }
    for (int32_t i = k; i < pitch; ++i) {
      q[i] = 0;
    }
    h += k;
    q += pitch;
  }
  *point = moved;
  return scale;
}
#endif
