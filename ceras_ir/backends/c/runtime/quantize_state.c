#include "vectors_f32.c"
#if MODEL_F32 == 16
#include <immintrin.h>
#endif
/* v, rounded half to even by adding 1.5 * 2^23. NaN is treated as 0, and the bounds are
 * integers. */
MODEL_INLINE int32_t round_within(float v, float low, float high)
{
  v = v == v ? v : 0.0f;
  v = v < low ? low : v > high ? high : v;
  v = v + 12582912.0f;
  int32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits - 1262485504;
}

/* The scale that quantizes n states to 8 bits, with a range from the smallest to the largest of them
 * and 0. *first is the smallest integer, minus the zero point. */
static float scale_of_states(const float *restrict h, int32_t n, float *restrict first)
{
  float low = 0.0f, high = 0.0f;
  int32_t begin = 0;
#if MODEL_F32
  model_f32v least = {0}, most = {0};
  for (; begin + MODEL_F32 <= n; begin += MODEL_F32) {
    const model_f32v v = LOAD_F32(h + begin);
    least = SELECT(v < least, v, least);
    most = SELECT(v > most, v, most);
  }
  for (int32_t j = 0; j < MODEL_F32; ++j) {
    low = least[j] < low ? least[j] : low;
    high = most[j] > high ? most[j] : high;
  }
#endif
  for (int32_t i = begin; i < n; ++i) {
    low = h[i] < low ? h[i] : low;
    high = h[i] > high ? h[i] : high;
  }
  const float span = high - low, scale = span == 0.0f ? 1.0f : span / 255.0f;
  *first = (float)-round_within((0.0f - low) / scale, 0.0f, 255.0f);
  return scale;
}

/* Quantizes the states h of a batch of sequences, k each, to 8 bits. Returns the scale. q has the
 * integers minus the zero point, in a row of `pitch` for each sequence. */
static float quantize_state(int16_t *restrict q, const float *restrict h, int32_t batch, int32_t k,
                            int32_t pitch)
{
  float first;
  const float scale = scale_of_states(h, batch * k, &first);
  for (int32_t b = 0; b < batch; ++b, h += k, q += pitch)
    for (int32_t i = 0; i < k; ++i)
      q[i] = (int16_t)round_within(h[i] / scale, first, first + 255.0f);
  return scale;
}
