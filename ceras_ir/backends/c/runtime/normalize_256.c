#include "turn_256.c"
#include "sqrt_f32.c"
/* Normalization of at most 8 rows of n floats, with sums in the order of elements. */
#if MODEL_F32 == 8
MODEL_TILE void normalize_256(const float *x, float *y, const float *scale, const float *bias,
                              int32_t rows, int32_t n, int32_t centred, float epsilon)
{
  const float *from[8];
  float means[8] = {0}, powers[8];
  for (int32_t j = 0; j < 8; ++j) {
    from[j] = x + (j < rows ? j : rows - 1) * n;
  }
  if (centred) {
    row_sums_256(from, n, means, 0, means);
    STORE_F32(means, LOAD_F32(means) / ALL_F32((float)n));
  }
  row_sums_256(from, n, means, 1, powers);
  STORE_F32(powers, LOAD_F32(powers) / ALL_F32((float)n) + ALL_F32(epsilon));
  for (int32_t r = 0; r < rows; ++r) {
    const float deviation = sqrt_f32(powers[r]), mean = means[r];
    float *const to = y + r * n;
    int32_t k = 0;
    for (; k + 8 <= n; k += 8) {
      model_f32v v = LOAD_F32(from[r] + k);
      if (centred) v = v - ALL_F32(mean);
      v = v / ALL_F32(deviation) * LOAD_F32(scale + k);
      if (bias) v = v + LOAD_F32(bias + k);
      STORE_F32(to + k, v);
    }
    for (; k < n; ++k) {
      const float v = (centred ? from[r][k] - mean : from[r][k]) / deviation * scale[k];
      to[k] = bias ? v + bias[k] : v;
    }
  }
}
#endif
