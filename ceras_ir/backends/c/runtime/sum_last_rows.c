#include "sum_last_f32.c"
#include "sum_last_512.c"
#include "turn_256.c"
/* y[i] = the sum of row i of x [rows, n] in the order of elements. */
static void sum_last_rows(const float *x, float *y, int32_t rows, int32_t n)
{
#if MODEL_F32 == 16
  for (int32_t i = 0; i < rows; i += 16) {
    sum_last_512(&x[i * n], &y[i], (rows - i) < 16 ? rows - i : 16, n);
  }
#elif MODEL_F32 == 8
  for (int32_t i = 0; i < rows; i += 8) {
    const int32_t count = (rows - i) < 8 ? rows - i : 8;
    const float *from[8];
    float sums[8];
    for (int32_t j = 0; j < 8; ++j) {
      from[j] = &x[(i + (j < count ? j : count - 1)) * n];
    }
    row_sums_256(from, n, sums, 0, sums);
    (void)memcpy(&y[i], sums, (size_t)count * sizeof *y);
  }
#else
  sum_last_f32(x, y, rows, n);
#endif
}
