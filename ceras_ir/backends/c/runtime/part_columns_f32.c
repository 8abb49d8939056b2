#include "vectors_f32.c"
/* y[o] += the sum of x[i] * w[i][o], for n columns of k rows at a distance of `pitch`. */
static void part_columns_f32(float *restrict y, const float *restrict x, const float *restrict w,
                             int32_t n, int32_t k, int32_t pitch)
{
  int32_t o = 0;
#if MODEL_F32
  for (; (o + 4 * MODEL_F32) <= n; o += 4 * MODEL_F32) {
    model_f32v a = LOAD_F32(y + o), b = LOAD_F32(y + o + MODEL_F32);
    model_f32v c = LOAD_F32(y + o + 2 * MODEL_F32), d = LOAD_F32(y + o + 3 * MODEL_F32);
    const float *from = w + o;
    for (int32_t i = 0; i < k; ++i, from += pitch) {
      const model_f32v v = SPLAT_F32(x + i);
      a = FMA(a, v, LOAD_F32(from));
      b = FMA(b, v, LOAD_F32(from + MODEL_F32));
      c = FMA(c, v, LOAD_F32(from + 2 * MODEL_F32));
      d = FMA(d, v, LOAD_F32(from + 3 * MODEL_F32));
    }
    STORE_F32(y + o, a);
    STORE_F32(y + o + MODEL_F32, b);
    STORE_F32(y + o + 2 * MODEL_F32, c);
    STORE_F32(y + o + 3 * MODEL_F32, d);
  }
  for (; (o + MODEL_F32) <= n; o += MODEL_F32) {
    model_f32v a = LOAD_F32(y + o);
    const float *from = w + o;
    for (int32_t i = 0; i < k; ++i, from += pitch) {
      a = FMA(a, SPLAT_F32(x + i), LOAD_F32(from));
    }
    STORE_F32(y + o, a);
  }
#endif
  if (o < n) {
    const float *from = w;
    for (int32_t i = 0; i < k; ++i, from += pitch) {
      for (int32_t j = o; j < n; ++j) {
        y[j] += x[i] * from[j];
      }
    }
  }
}
