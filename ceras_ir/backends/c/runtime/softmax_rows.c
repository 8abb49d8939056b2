#include "softmax.c"
#include "softmax_512.c"
#include "softmax_256.c"
/* Softmax of rows of n floats. */
static void softmax_rows(const float *x, float *y, int32_t rows, int32_t n)
{
#if MODEL_F32 == 16
  for (int32_t i = 0; i < rows; i += 8) {
    softmax_512(&x[i * n], &y[i * n], (rows - i) < 8 ? rows - i : 8, n);
  }
#elif MODEL_F32 == 8
  for (int32_t i = 0; i < rows; ++i) {
    softmax_256(&x[i * n], &y[i * n], n);
  }
#else
  softmax(x, y, rows, n, 1);
#endif
}
