#include "sum_last_f32.c"
#include "sum_last_512.c"
/* y[i] = the sum of row i of x [rows, n] in the order of elements. */
static void sum_last_rows(const float *x, float *y, int32_t rows, int32_t n)
{
#if MODEL_F32 == 16
  for (int32_t i = 0; i < rows; i += 16) {
    sum_last_512(&x[i * n], &y[i], (rows - i) < 16 ? rows - i : 16, n);
  }
#else
  sum_last_f32(x, y, rows, n);
#endif
}
