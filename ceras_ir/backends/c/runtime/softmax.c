#include "exp_f32.c"
#include "largest_f32.c"
#include "sum_last_f32.c"
/* Along the middle dimension of [outer, n, inner]: exp(x - max) / sum, added in index order. */
static void softmax(const float *restrict x, float *restrict y, int32_t outer, int32_t n,
                    int32_t inner)
{
  if (inner == 1) {
    for (int32_t i = 0; i < outer; i += 8) {
      const int32_t rows = outer - i < 8 ? outer - i : 8;
      const float *from = x + i * n;
      float *to = y + i * n, sums[8];
      for (int32_t r = 0; r < rows; ++r, from += n, to += n) {
        const float most = largest_f32(from, n);
        for (int32_t k = 0; k < n; ++k) to[k] = exp_f32(from[k] - most);
      }
      to = y + i * n;
      sum_last_f32(to, sums, rows, n);
      for (int32_t r = 0; r < rows; ++r, to += n)
        for (int32_t k = 0; k < n; ++k) to[k] /= sums[r];
    }
    return;
  }
  for (int32_t i = 0; i < outer; ++i) {
    for (int32_t j = 0; j < inner; ++j) {
      const float *from = x + i * n * inner + j;
      float *to = y + i * n * inner + j;
      float most = from[0], sum = 0.0f;
      for (int32_t k = 1; k < n; ++k) {
        const float v = from[k * inner];
        most = v > most || v != v ? v : most;
      }
      for (int32_t k = 0; k < n; ++k) to[k * inner] = exp_f32(from[k * inner] - most);
      for (int32_t k = 0; k < n; ++k) sum += to[k * inner];
      for (int32_t k = 0; k < n; ++k) to[k * inner] /= sum;
    }
  }
}
