#include "pack_panels.c"
#include "turn_512.c"
/* Packs rows w [n, k] at a distance of `pitch` to panels of `width` outputs, a multiple of 16. */
static void pack_tiles(float *restrict to, const float *restrict w, int32_t n, int32_t k,
                       int32_t pitch, int32_t width)
{
#if MODEL_F32 == 16
  for (int32_t o = 0; o < n; o += 16) {
    const int32_t outputs = (n - o) < 16 ? n - o : 16;
    float *const panel = to + (o - (o % width)) * k + (o % width);
    for (int32_t i = 0; i < k; i += 16) {
      const int32_t columns = (k - i) < 16 ? k - i : 16;
      const __mmask16 lanes = (__mmask16)((1u << columns) - 1u);
      __m512 v[16];
      for (int32_t j = 0; j < 16; ++j) {
        const float *const row = w + (o + (j < outputs ? j : 0)) * pitch;
        v[j] = _mm512_maskz_loadu_ps(j < outputs ? lanes : 0, row + i);
      }
      turn_512(v);
      if (columns == 16) {
        for (int32_t j = 0; j < 16; ++j) {
          _mm512_storeu_ps(panel + (i + j) * width, v[j]);
        }
      } else {
        for (int32_t j = 0; j < columns; ++j) {
          _mm512_storeu_ps(panel + (i + j) * width, v[j]);
        }
      }
    }
  }
  /* The vectors of the last panel after the last output. */
  for (int32_t o = (n + 15) & ~15; (o % width) != 0; o += 16) {
    float *const panel = to + (o - (o % width)) * k + (o % width);
    for (int32_t i = 0; i < k; ++i) {
      _mm512_storeu_ps(panel + i * width, _mm512_setzero_ps());
    }
  }
#else
  pack_panels(to, w, n, k, pitch, width);
#endif
}
