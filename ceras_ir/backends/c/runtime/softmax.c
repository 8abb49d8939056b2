#include "exp_f32.c"
#include "largest_f32.c"
#include "sum_f32.c"
/* Softmax along the middle dimension of [outer, n, inner]: exp(x - max) / sum. */
static void softmax(const float *restrict x, float *restrict y, int32_t outer, int32_t n,
                    int32_t inner)
{
  for (int32_t i = 0; i < outer; ++i) {
    for (int32_t j = 0; j < inner; ++j) {
      const float *from = &x[(i * n * inner) + j];
      float *to = &y[(i * n * inner) + j];
      if (inner == 1) {
        const float most = largest_f32(from, n);
        for (int32_t k = 0; k < n; ++k) {
          to[k] = exp_f32(from[k] - most);
        }
        const float sum = sum_f32(to, (size_t)n, 1);
        for (int32_t k = 0; k < n; ++k) {
          to[k] /= sum;
        }
      } else {
        float most = from[0];
        for (int32_t k = 1; k < n; ++k) {
          const float v = from[k * inner];
          most = ((v > most) || (v != v)) ? v : most;
        }
        for (int32_t k = 0; k < n; ++k) {
          to[k * inner] = exp_f32(from[k * inner] - most);
        }
        const float sum = sum_f32(to, (size_t)n, (size_t)inner);
        for (int32_t k = 0; k < n; ++k) {
          to[k * inner] /= sum;
        }
      }
    }
  }
}
