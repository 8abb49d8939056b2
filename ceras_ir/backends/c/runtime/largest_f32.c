#include "vectors_f32.c"
/* The largest of n elements, or NaN if any element is NaN. */
static float largest_f32(const float *restrict x, int32_t n)
{
  float most = x[0];
  int32_t k = 0;
#if MODEL_F32
  if (n >= MODEL_F32) {
    model_f32v best = LOAD_F32(x);
    for (; (k + MODEL_F32) <= n; k += MODEL_F32) {
      const model_f32v v = LOAD_F32(x + k);
      best = SELECT((v > best) | (v != v), v, best);
    }
    most = best[0];
    for (int32_t j = 1; j < MODEL_F32; ++j) {
      most = ((best[j] > most) || (best[j] != best[j])) ? best[j] : most;
    }
  }
#endif
  for (; k < n; ++k) {
    most = ((x[k] > most) || (x[k] != x[k])) ? x[k] : most;
  }
  return most;
}
