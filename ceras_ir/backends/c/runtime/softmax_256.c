#include "exp_256.c"
/* Softmax of a row of n floats. 16 sums are added in the order of lanes, as in `sum_f32`. */
#if MODEL_F32 == 8
MODEL_TILE void softmax_256(const float *x, float *y, int32_t n)
{
  const int32_t whole = n & ~15;
  float rest[16], sums[16];
  model_f32v best[2] = {ALL_F32(-INFINITY), ALL_F32(-INFINITY)}, sum[2] = {{0}, {0}};
  for (int32_t k = 0; k < 16; ++k) {
    rest[k] = k < n - whole ? x[whole + k] : -INFINITY;
  }
  /* NaN may be skipped here: the sum includes it. */
  for (int32_t k = 0; k < n; k += 16) {
    const float *from = k < whole ? x + k : rest;
    PAIR_256 best[j] = AT_LEAST(best[j], LOAD_F32(from + 8 * j));
  }
  PAIR_256 STORE_F32(sums + 8 * j, best[j]);
  float most = sums[0];
  for (int32_t k = 1; k < 16; ++k) {
    most = sums[k] > most ? sums[k] : most;
  }
  for (int32_t k = 0; k < n; k += 16) {
    const float *from = k < whole ? x + k : rest;
    float *to = k < whole ? y + k : rest;
    model_f32v t[2], scale[2];
    model_mask is_outside[2];
    PAIR_256 t[j] = LOAD_F32(from + 8 * j) - ALL_F32(most);
    PAIR_256 is_outside[j] = t[j] < ALL_F32(@EXP_LOW@);
    exp_reduced_256(t, scale);
    PAIR_256 t[j] = KEPT_256(~is_outside[j], (t[j] + ALL_F32(1.0f)) * scale[j]);
    PAIR_256 sum[j] += t[j];
    PAIR_256 STORE_F32(to + 8 * j, t[j]);
  }
  PAIR_256 STORE_F32(sums + 8 * j, sum[j]);
  float total = sums[0];
  for (int32_t k = 1; k < 16; ++k) {
    total += sums[k];
  }
  for (int32_t k = 0; k < whole; k += 8) {
    STORE_F32(y + k, LOAD_F32(y + k) / ALL_F32(total));
  }
  for (int32_t k = whole; k < n; ++k) {
    y[k] = rest[k - whole] / total;
  }
}
#endif
