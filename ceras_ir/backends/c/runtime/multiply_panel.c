#include "vectors_i8.c"
#if MODEL_LANES == 16
/* The products of up to 4 states, in `chains` chains of additions for each sum: additions wait for
 * each other. A panel begins with the sums of the weights of 64 outputs. */
MODEL_INLINE void multiply_panel_states(int32_t states, int32_t chains, int32_t *restrict sums,
                                        const uint8_t *restrict q, const int8_t *restrict panel,
                                        int32_t point, int32_t k)
{
  const int8_t *w = panel + 256;
  model_i32v s[4][2][4];
  MODEL_IN_REGISTERS
  for (int32_t b = 0; b < states; ++b) {
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 4; ++j) {
      s[b][0][j] = LOAD_I32(panel + 64 * j) * ALL_I32(-point);
      s[b][1][j] = ALL_I32(0);
    }
  }
  int32_t i = 0;
  MODEL_ROLLED
  for (; (i + 4 * chains) <= k; i += 4 * chains) {
    MODEL_IN_REGISTERS
    for (int32_t c = 0; c < chains; ++c, w += 256) {
      MODEL_IN_REGISTERS
      for (int32_t b = 0; b < states; ++b) {
        const model_i32v x = SPLAT(q + b * k + i + 4 * c);
        MODEL_IN_REGISTERS
        for (int32_t j = 0; j < 4; ++j) s[b][c][j] = DOT(s[b][c][j], x, LOAD_BYTES(w + 64 * j));
      }
    }
  }
  MODEL_IN_REGISTERS
  for (int32_t b = 0; b < states; ++b) {
    if (i < k) {
      const model_i32v x = SPLAT(q + b * k + i);
      MODEL_IN_REGISTERS
      for (int32_t j = 0; j < 4; ++j) s[b][1][j] = DOT(s[b][1][j], x, LOAD_BYTES(w + 64 * j));
    }
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 4; ++j) STORE_I32(sums + 64 * b + 16 * j, s[b][0][j] + s[b][1][j]);
  }
}

/* sums[b][j] = the sum of (q[b][i] - point) * w[j][i], for 64 outputs and k inputs, a multiple of 4.
 * A panel has the sum of the weights of each output, then the weights as [k / 4][64][4]. */
MODEL_TILE void multiply_panel(int32_t *restrict sums, const uint8_t *restrict q,
                               const int8_t *restrict panel, int32_t point, int32_t batch, int32_t k)
{
  int32_t b = 0;
  for (; b + 4 <= batch; b += 4)
    multiply_panel_states(4, 1, sums + 64 * b, q + b * k, panel, point, k);
  for (; b + 2 <= batch; b += 2)
    multiply_panel_states(2, 1, sums + 64 * b, q + b * k, panel, point, k);
  if (b < batch) multiply_panel_states(1, 2, sums + 64 * b, q + b * k, panel, point, k);
}
#endif
