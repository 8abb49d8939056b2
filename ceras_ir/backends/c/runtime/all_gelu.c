#include "gelu_f32.c"
#include "gelu_512.c"
/* GELU of n floats, which may be in place. */
static void all_gelu(const float *x, float *y, int32_t n)
{
  int32_t i = 0;
#if MODEL_F32 == 16
  for (; (i + 48) <= n; i += 48) {
    gelu_512(&x[i], &y[i]);
  }
#endif
  MODEL_ALIKE
  for (int32_t k = i; k < n; ++k) {
    y[k] = gelu_f32(x[k]);
  }
}
