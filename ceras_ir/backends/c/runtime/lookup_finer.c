#include "lookup_lanes.c"
#if MODEL_LOOKUP
#include <immintrin.h>
#endif
/* The function `lookup_rows_int16_t_int8_t` with vector instructions, for few tables of few entries.
 * The elements are in the order of memory. */
MODEL_STATIC void lookup_finer(int8_t *restrict y, const int16_t *restrict x,
                               const int8_t *restrict table, const int32_t *restrict first,
                               int32_t half, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* An instruction looks up in 128 entries by the low seven bits of an index. The upper bits select
   * the lanes that use the result. */
  const __m512i low = _mm512_set1_epi16((short)-half), high = _mm512_set1_epi16((short)(half - 1));
  int32_t period = channels;
  while (period % 64) period += channels;
  done = n - n % period;
  for (int32_t start = 0; start < period; start += 64) {
    int32_t tables[64];
    uint64_t lanes[64];
    const int32_t count = lookup_lanes(first, start, channels, tables, lanes);
    for (int32_t i = start; i < done; i += period) {
      __m512i at[2], bits, upper;
      for (int32_t k = 0; k < 2; ++k) {
        at[k] = _mm512_loadu_si512((const void *)(x + i + 32 * k));
        at[k] = _mm512_sub_epi16(_mm512_min_epi16(_mm512_max_epi16(at[k], low), high), low);
      }
      bits = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(at[0])),
                                _mm512_cvtepi16_epi8(at[1]), 1);
      at[0] = _mm512_srli_epi16(at[0], 7), at[1] = _mm512_srli_epi16(at[1], 7);
      upper = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(at[0])),
                                 _mm512_cvtepi16_epi8(at[1]), 1);
      for (int32_t t = 0; t < count; ++t) {
        const int8_t *part = table + tables[t] - half;
        for (int32_t p = 0; p < half / 64; ++p, part += 128) {
          const __mmask64 here =
              _mm512_mask_cmpeq_epi8_mask(lanes[t], upper, _mm512_set1_epi8((char)p));
          bits = _mm512_mask2_permutex2var_epi8(_mm512_loadu_si512((const void *)part), bits, here,
                                                _mm512_loadu_si512((const void *)(part + 64)));
        }
      }
      _mm512_storeu_si512((void *)(y + i), bits);
    }
  }
#endif
  lookup_rows_int16_t_int8_t(y + done, x + done, table, first, half, channels, n - done);
}
