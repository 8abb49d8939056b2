#include "vectors_f32.c"
#if MODEL_F32
/* p[j] = the sum of h[i] * w[i * pitch + j] in the order of i, from 0, each step rounded, for up to
 * 8 vectors of j, so that registers hold the sums. */
MODEL_INLINE void multiply_state_vectors(int32_t vectors, float *restrict p,
                                         const float *restrict h, const float *restrict w,
                                         int32_t k, int32_t pitch)
{
  model_f32v s[8] = {{0}};
  MODEL_ROLLED
  for (int32_t i = 0; i < k; ++i, w += pitch) {
    const model_f32v v = SPLAT_F32(h + i);
    MODEL_IN_REGISTERS
    for (int32_t b = 0; b < vectors; ++b) s[b] = s[b] + v * LOAD_F32(w + b * MODEL_F32);
  }
  MODEL_IN_REGISTERS
  for (int32_t b = 0; b < vectors; ++b) STORE_F32(p + b * MODEL_F32, s[b]);
}
#endif

/* The same for n outputs, in panels of `width`; the last panel may be narrower. Vectors hold
 * outputs, so that no sum is reordered. The last vector of a narrow panel extends into the next
 * row, and w and p have space for it. Calls alternate `backwards`, to begin with the weights that
 * were used last, which are still in the first-level cache. */
MODEL_TILE void multiply_state(float *restrict p, const float *restrict h, const float *restrict w,
                               int32_t k, int32_t n, int32_t width, int32_t backwards)
{
  const int32_t end = (n + width - 1) / width * width;
  for (int32_t turn = 0; turn < end; turn += width) {
    const int32_t b = backwards ? end - width - turn : turn, m = n - b < width ? n - b : width;
    const float *panel = w + b * k;
    float *to = p + b;
#if MODEL_F32
    int32_t j = 0, left = (m + MODEL_F32 - 1) / MODEL_F32 * MODEL_F32;
    for (; left >= 8 * MODEL_F32; left -= 8 * MODEL_F32, j += 8 * MODEL_F32)
      multiply_state_vectors(8, to + j, h, panel + j, k, m);
    for (; left >= 4 * MODEL_F32; left -= 4 * MODEL_F32, j += 4 * MODEL_F32)
      multiply_state_vectors(4, to + j, h, panel + j, k, m);
    for (; left >= 2 * MODEL_F32; left -= 2 * MODEL_F32, j += 2 * MODEL_F32)
      multiply_state_vectors(2, to + j, h, panel + j, k, m);
    for (; left > 0; left -= MODEL_F32, j += MODEL_F32)
      multiply_state_vectors(1, to + j, h, panel + j, k, m);
#else
    for (int32_t r = 0; r < m; ++r) to[r] = 0.0f;
    for (int32_t i = 0; i < k; ++i, panel += m)
      for (int32_t r = 0; r < m; ++r) to[r] += h[i] * panel[r];
#endif
  }
}
