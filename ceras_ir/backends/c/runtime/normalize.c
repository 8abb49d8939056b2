#include "sqrt_f32.c"
#include "normalize_512.c"
#include "normalize_256.c"
/* Normalizes rows of n numbers by the mean, if `centred`, and the deviation; sums in index
 * order. */
static void normalize(const float *restrict x, float *restrict y, const float *restrict scale,
                      const float *restrict bias, int32_t rows, int32_t n, int32_t centred,
                      float epsilon)
{
#if MODEL_F32 == 16
  for (int32_t r = 0; r < rows; r += 16) {
    const int32_t count = (rows - r) < 16 ? rows - r : 16;
    normalize_512(&x[r * n], &y[r * n], scale, bias, count, n, centred, epsilon);
  }
#elif MODEL_F32 == 8
  for (int32_t r = 0; r < rows; r += 8) {
    const int32_t count = (rows - r) < 8 ? rows - r : 8;
    normalize_256(&x[r * n], &y[r * n], scale, bias, count, n, centred, epsilon);
  }
#else
  for (int32_t r = 0; r < rows; ++r) {
    float mean = 0.0f;
    float power;
    if (centred) {
      mean = x[0];
      for (int32_t k = 1; k < n; ++k) {
        mean += x[k];
      }
      mean /= (float)n;
    }
    for (int32_t k = 0; k < n; ++k) {
      y[k] = centred ? (x[k] - mean) : x[k];
    }
    power = y[0] * y[0];
    for (int32_t k = 1; k < n; ++k) {
      power += y[k] * y[k];
    }
    const float deviation = sqrt_f32((power / (float)n) + epsilon);
    for (int32_t k = 0; k < n; ++k) {
      y[k] = y[k] / deviation * scale[k];
    }
    if (bias) {
      for (int32_t k = 0; k < n; ++k) {
        y[k] += bias[k];
      }
    }
    x += n;
    y += n;
  }
#endif
}
