#include "vectors_i8.c"
#if MODEL_LANES == 16
/* sums[b][j] = -point * totals[j], for 64 outputs and a batch of states. */
MODEL_INLINE void start_panel(int32_t *restrict sums, const int8_t *restrict totals, int32_t point,
                              int32_t batch)
{
  for (int32_t b = 0; b < batch; ++b, sums += 64)
    for (int32_t j = 0; j < 64; j += 16)
      STORE_I32(sums + j, LOAD_I32(totals + 4 * j) * ALL_I32(-point));
}

/* Adds products to the sums of up to 4 states, which registers hold. */
MODEL_INLINE void multiply_panel_states(int32_t states, int32_t *restrict sums,
                                        const uint8_t *restrict q, const int8_t *restrict w,
                                        int32_t k, int32_t pitch)
{
  model_i32v s[4][4];
  MODEL_IN_REGISTERS
  for (int32_t b = 0; b < states; ++b) {
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 4; ++j) s[b][j] = LOAD_I32(sums + 64 * b + 16 * j);
  }
  MODEL_ROLLED
  for (int32_t i = 0; i < k; i += 4, w += 256) {
    MODEL_IN_REGISTERS
    for (int32_t b = 0; b < states; ++b) {
      const model_i32v x = SPLAT(q + b * pitch + i);
      MODEL_IN_REGISTERS
      for (int32_t j = 0; j < 4; ++j) s[b][j] = DOT(s[b][j], x, LOAD_BYTES(w + 64 * j));
    }
  }
  MODEL_IN_REGISTERS
  for (int32_t b = 0; b < states; ++b) {
    MODEL_IN_REGISTERS
    for (int32_t j = 0; j < 4; ++j) STORE_I32(sums + 64 * b + 16 * j, s[b][j]);
  }
}

/* sums[b][j] += the sum of q[b][i] * w[j][i], for 64 outputs and k inputs, a multiple of 4. w is
 * [k / 4][64][4]. */
MODEL_TILE void multiply_panel(int32_t *restrict sums, const uint8_t *restrict q,
                               const int8_t *restrict w, int32_t batch, int32_t k, int32_t pitch)
{
  int32_t b = 0;
  for (; b + 4 <= batch; b += 4)
    multiply_panel_states(4, sums + 64 * b, q + b * pitch, w, k, pitch);
  for (; b + 2 <= batch; b += 2)
    multiply_panel_states(2, sums + 64 * b, q + b * pitch, w, k, pitch);
  if (b < batch) multiply_panel_states(1, sums + 64 * b, q + b * pitch, w, k, pitch);
}
#endif
