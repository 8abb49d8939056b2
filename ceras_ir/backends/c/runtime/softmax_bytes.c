#include "softmax_entries.c"
#if MODEL_LOOKUP
/* Like integer_softmax, for rows of 64 bytes or more. Exponentials are looked up as two bytes each,
 * and results in a table of the row, by the distance to the maximum. */
MODEL_STATIC void softmax_bytes(const int8_t *restrict x, int8_t *restrict y,
                                const int32_t *restrict table, int32_t last, int32_t outer,
                                int32_t n, int32_t shift, int32_t zero_point, int32_t low,
                                int32_t high)
{
  typedef uint8_t unsigned_bytes __attribute__((vector_size(64), aligned(1), may_alias));
  union softmax_bytes lows, highs;
  union {
    model_bytes lanes;
    int8_t bytes[64];
  } mask;
  /* In the order from which packing makes bytes in the order of distances. */
  uint32_t exponentials[256];
  const __m512i half = _mm512_set1_epi32(1 << (shift - 1));
  const __m128i by = _mm_cvtsi32_si128(shift);
  const __m512i point = _mm512_set1_epi16((int16_t)zero_point);
  const __m512i lowest = _mm512_set1_epi16((int16_t)low), highest = _mm512_set1_epi16((int16_t)high);
  split_exponentials(&lows, &highs, table, last);
  for (int32_t d = 0; d < 256; ++d)
    exponentials[(d & 0xC3) | ((d & 0x30) >> 2) | ((d & 0x0C) << 2)] =
        (uint32_t)table[d < last ? d : last];
  /* The elements of the last 64 that no previous vector contains. */
  for (int32_t i = 0; i < 64; ++i) mask.bytes[i] = i >= 64 - n % 64 ? -1 : 0;
  const model_i32v ones = ALL_I32(0x01010101);
  for (int32_t r = 0; r < outer; ++r, x += n, y += n) {
    __m512i most = _mm512_loadu_si512((const void *)x);
    for (int32_t k = 64; k < n; k += 64) {
      const int32_t at = k + 64 <= n ? k : n - 64;
      most = _mm512_max_epi8(most, _mm512_loadu_si512((const void *)(x + at)));
    }
    most = _mm512_max_epi8(most, _mm512_shuffle_i64x2(most, most, 0x4E));
    most = _mm512_max_epi8(most, _mm512_shuffle_i64x2(most, most, 0xB1));
    const unsigned_bytes start = (unsigned_bytes)largest_of_16(most);
    model_i32v small = ALL_I32(0), large = ALL_I32(0);
    for (int32_t k = 0; k < n; k += 64) {
      const int32_t at = k + 64 <= n ? k : n - 64;
      const model_bytes d = (model_bytes)(start - *(const unsigned_bytes *)(const void *)(x + at));
      model_bytes a = entries_of(lows.parts, d), b = entries_of(highs.parts, d);
      if (at < k) a &= mask.lanes, b &= mask.lanes;
      small = DOT(small, (model_i32v)a, ones);
      large = DOT(large, (model_i32v)b, ones);
    }
    const uint32_t sum = (uint32_t)_mm512_reduce_add_epi32((__m512i)(small + (large << 8)));
    const __m512i reciprocal = _mm512_set1_epi32((int32_t)(UINT32_C(0x7fffffff) / sum));
    model_bytes results[4];
    for (int32_t p = 0; p < 4; ++p) {
      __m512i v[4];
      for (int32_t q = 0; q < 4; ++q) {
        const __m512i e = _mm512_loadu_si512(exponentials + 64 * p + 16 * q);
        v[q] = _mm512_srl_epi32(_mm512_add_epi32(_mm512_mullo_epi32(e, reciprocal), half), by);
      }
      for (int32_t q = 0; q < 2; ++q) {
        v[q] = _mm512_adds_epi16(_mm512_packs_epi32(v[2 * q], v[2 * q + 1]), point);
        v[q] = _mm512_min_epi16(_mm512_max_epi16(v[q], lowest), highest);
      }
      results[p] = (model_bytes)_mm512_packs_epi16(v[0], v[1]);
    }
    for (int32_t k = 0; k < n; k += 64) {
      const int32_t at = k + 64 <= n ? k : n - 64;
      const model_bytes d = (model_bytes)(start - *(const unsigned_bytes *)(const void *)(x + at));
      *(model_bytes *)(void *)(y + at) = entries_of(results, d);
    }
  }
}
#endif
