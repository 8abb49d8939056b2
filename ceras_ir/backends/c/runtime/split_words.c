#include "amx.c"
/* Inputs of 16 bits in the tiles of AMX: planes of low bytes, unsigned, and of high bytes, signed, at
 * a distance of `plane` bytes. The sum of x w is that of low w plus 256 times that of high w. */
#if MODEL_AMX
#define SPLIT(low, high, from) \
  do { \
    const __m512i a = _mm512_loadu_si512((const void *)(from)); \
    const __m512i b = _mm512_loadu_si512((const void *)((from) + 32)); \
    const __m512i mask = _mm512_set1_epi16(255); \
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7); \
    const __m512i l = _mm512_packus_epi16(_mm512_and_si512(a, mask), _mm512_and_si512(b, mask)); \
    const __m512i h = _mm512_packs_epi16(_mm512_srai_epi16(a, 8), _mm512_srai_epi16(b, 8)); \
    _mm512_storeu_si512((void *)(low), _mm512_permutexvar_epi64(order, l)); \
    _mm512_storeu_si512((void *)(high), _mm512_permutexvar_epi64(order, h)); \
  } while (0)
static void split_words(uint8_t *restrict low, int32_t plane, const int16_t *restrict x, int32_t n)
{
  uint8_t *restrict high = low + plane;
  int32_t i = 0;
  for (; i <= (n - 64); i += 64) {
    SPLIT(low + i, high + i, x + i);
  }
  for (; i < n; ++i) {
    low[i] = (uint8_t)x[i];
    high[i] = (uint8_t)((uint16_t)x[i] >> 8);
  }
}
/* The lower or upper two bytes of words of four weights, widened to 16 bits. */
#define WIDENED(p, bytes) \
  ((model_i32v)_mm512_srai_epi16( \
      _mm512_shuffle_epi8(_mm512_loadu_si512((const void *)(p)), \
                          _mm512_set4_epi32((bytes) + 0x0C000C00, (bytes) + 0x08000800, \
                                            (bytes) + 0x04000400, (bytes))), 8))
#define LOAD_LOWER(p) WIDENED(p, 0x01000000)
#define LOAD_UPPER(p) WIDENED(p, 0x03000200)
#endif
