#include "softmax_entries.c"
#if MODEL_LOOKUP
/* Like integer_softmax, for rows of at most 16 bytes. A vector has four rows of 16 bytes, of which
 * the last are not used in shorter rows. */
MODEL_STATIC void softmax_short(const int8_t *restrict x, int8_t *restrict y,
                                const int32_t *restrict table, int32_t last, int32_t outer,
                                int32_t n, int32_t shift, int32_t zero_point, int32_t low,
                                int32_t high)
{
  union softmax_bytes lows, highs;
  union {
    __m512i lanes;
    uint8_t bytes[64];
  } spread, packed;
  union {
    __m512i lanes;
    __m128i rows[4];
  } a, b;
  const __m512i half = _mm512_set1_epi32(1 << (shift - 1)), point = _mm512_set1_epi32(zero_point);
  const __m512i lowest = _mm512_set1_epi32(low), highest = _mm512_set1_epi32(high);
  const __m128i by = _mm_cvtsi32_si128(shift);
  const model_i32v ones = ALL_I32(0x01010101);
  const __mmask64 used = (0xFFFFULL >> (16 - n)) * 0x0001000100010001ULL;
  split_exponentials(&lows, &highs, table, last);
  for (int32_t i = 0; i < 64; ++i) {
    spread.bytes[i] = (uint8_t)((i / 16 * n) + (i % 16));
    packed.bytes[i] = (uint8_t)((i / n * 16) + (i % n));
  }
  for (int32_t r = 0; r < outer; r += 4, x += 4 * n, y += 4 * n) {
    const int32_t rows = outer - r < 4 ? outer - r : 4;
    const __mmask64 loaded = ~0ULL >> (64 - rows * n);
    const __m512i v = _mm512_mask_permutexvar_epi8(_mm512_set1_epi8(-128), used, spread.lanes,
                                                   _mm512_maskz_loadu_epi8(loaded, x));
    const model_bytes d = (model_bytes)_mm512_sub_epi8(largest_of_16(v), v);
    a.lanes = _mm512_maskz_mov_epi8(used, (__m512i)entries_of(lows.parts, d));
    b.lanes = _mm512_maskz_mov_epi8(used, (__m512i)entries_of(highs.parts, d));
    const model_i32v small = DOT(ALL_I32(0), (model_i32v)a.lanes, ones);
    const model_i32v large = DOT(ALL_I32(0), (model_i32v)b.lanes, ones);
    const model_i32v sums = small + (large << 8);
    /* The four words of a row are added. The quotient of doubles is at least 2^-20 below the next
     * integer, so truncation is exact. */
    const __m512i halves =
        _mm512_add_epi32((__m512i)sums, _mm512_shuffle_epi32((__m512i)sums, _MM_PERM_BADC));
    const __m512i whole = _mm512_add_epi32(halves, _mm512_shuffle_epi32(halves, _MM_PERM_CDAB));
    const __m512i rows_first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i sum = _mm512_castsi512_si128(_mm512_permutexvar_epi32(rows_first, whole));
    const __m128i reciprocal =
        _mm256_cvttpd_epi32(_mm256_div_pd(_mm256_set1_pd(2147483647.0), _mm256_cvtepi32_pd(sum)));
    const __m512i reciprocals = _mm512_castsi128_si512(reciprocal);
    MODEL_IN_REGISTERS
    for (int32_t i = 0; i < 4; ++i) {
      const __m512i upper = _mm512_slli_epi32(_mm512_cvtepu8_epi32(b.rows[i]), 8);
      const __m512i e = _mm512_or_si512(_mm512_cvtepu8_epi32(a.rows[i]), upper);
      const __m512i factor = _mm512_permutexvar_epi32(_mm512_set1_epi32(i), reciprocals);
      const __m512i product = _mm512_add_epi32(_mm512_mullo_epi32(e, factor), half);
      const __m512i q = _mm512_add_epi32(_mm512_srl_epi32(product, by), point);
      a.rows[i] = _mm512_cvtepi32_epi8(_mm512_min_epi32(_mm512_max_epi32(q, lowest), highest));
    }
    _mm512_mask_storeu_epi8(y, loaded, _mm512_permutexvar_epi8(packed.lanes, a.lanes));
  }
}
#endif
