#include "vectors_f32.c"
/* y[o] += x . row o of w, for n rows of k floats at a distance of `pitch`. */
static void part_rows_f32(float *restrict y, const float *restrict x, const float *restrict w,
                          int32_t n, int32_t k, int32_t pitch)
{
  for (int32_t o = 0; o < n; ++o) {
    const float *row = w + (size_t)o * (size_t)pitch;
    float sum = 0.0f;
    int32_t i = 0;
#if MODEL_F32
    model_f32v a = {0}, b = {0};
    for (; (i + 2 * MODEL_F32) <= k; i += 2 * MODEL_F32) {
      a = FMA(a, LOAD_F32(x + i), LOAD_F32(row + i));
      b = FMA(b, LOAD_F32(x + i + MODEL_F32), LOAD_F32(row + i + MODEL_F32));
    }
    float lanes[MODEL_F32];
    STORE_F32(lanes, a + b);
    MODEL_IN_REGISTERS
    for (int32_t half = MODEL_F32 / 2; half > 0; half /= 2) {
      for (int32_t j = 0; j < half; ++j) {
        lanes[j] += lanes[j + half];
      }
    }
    sum = lanes[0];
#endif
    for (; i < k; ++i) {
      sum += x[i] * row[i];
    }
    y[o] += sum;
  }
}
