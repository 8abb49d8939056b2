#include "vectors_f32.c"
/* Transpose 16 vectors of 16 floats. */
#if MODEL_F32 == 16
#include <immintrin.h>
#define QUARTERS_512(a, b, order) _mm512_shuffle_f32x4(a, b, order)
MODEL_INLINE void turn_512(__m512 *v)
{
  __m512 t[16];
  for (int32_t j = 0; j < 16; j += 2) {
    t[j] = _mm512_unpacklo_ps(v[j], v[j + 1]);
    t[j + 1] = _mm512_unpackhi_ps(v[j], v[j + 1]);
  }
  /* Quarter q of v[4 * g + c] has column 4 * q + c of rows 4 * g to 4 * g + 3. */
  for (int32_t j = 0; j < 16; j += 4) {
    v[j] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[j]), _mm512_castps_pd(t[j + 2])));
    v[j + 1] =
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[j]), _mm512_castps_pd(t[j + 2])));
    v[j + 2] = _mm512_castpd_ps(
        _mm512_unpacklo_pd(_mm512_castps_pd(t[j + 1]), _mm512_castps_pd(t[j + 3])));
    v[j + 3] = _mm512_castpd_ps(
        _mm512_unpackhi_pd(_mm512_castps_pd(t[j + 1]), _mm512_castps_pd(t[j + 3])));
  }
  for (int32_t c = 0; c < 4; ++c) {
    t[c] = QUARTERS_512(v[c], v[c + 4], 0x88);
    t[c + 4] = QUARTERS_512(v[c], v[c + 4], 0xDD);
    t[c + 8] = QUARTERS_512(v[c + 8], v[c + 12], 0x88);
    t[c + 12] = QUARTERS_512(v[c + 8], v[c + 12], 0xDD);
  }
  for (int32_t c = 0; c < 4; ++c) {
    v[c] = QUARTERS_512(t[c], t[c + 8], 0x88);
    v[c + 8] = QUARTERS_512(t[c], t[c + 8], 0xDD);
    v[c + 4] = QUARTERS_512(t[c + 4], t[c + 12], 0x88);
    v[c + 12] = QUARTERS_512(t[c + 4], t[c + 12], 0xDD);
  }
}
#endif
