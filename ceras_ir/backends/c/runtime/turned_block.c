#include "lookup_block.c"
#include "lookup_indices.c"
#if MODEL_LOOKUP
/* Loads 64 elements of a row, and returns the low seven bits and the upper bits of their indices. */
MODEL_INLINE void load_indices(model_bytes *low, model_bytes *upper, const int16_t *x,
                               const struct lookup_block *b, __m512i lowest, __m512i highest)
{
  const __mmask32 first = (__mmask32)block_lanes(b), last = (__mmask32)(block_lanes(b) >> 32);
  split_indices(low, upper, _mm512_maskz_loadu_epi16(first, x + b->at),
                _mm512_maskz_loadu_epi16(last, x + b->at + 32), lowest, highest);
}

/* Exchanges rows and columns of the 4 by 4 parts of 128 bits of the vectors 0, 16, 32 and 48. */
MODEL_INLINE void turn_parts(model_bytes *v)
{
  enum { FIRST = 0x44, LAST = 0xEE, EVEN = 0x88, ODD = 0xDD };
  const __m512i a = (__m512i)v[0], b = (__m512i)v[16], c = (__m512i)v[32], d = (__m512i)v[48];
  const __m512i ab = _mm512_shuffle_i64x2(a, b, FIRST), cd = _mm512_shuffle_i64x2(c, d, FIRST);
  const __m512i ab_last = _mm512_shuffle_i64x2(a, b, LAST);
  const __m512i cd_last = _mm512_shuffle_i64x2(c, d, LAST);
  v[0] = (model_bytes)_mm512_shuffle_i64x2(ab, cd, EVEN);
  v[16] = (model_bytes)_mm512_shuffle_i64x2(ab, cd, ODD);
  v[32] = (model_bytes)_mm512_shuffle_i64x2(ab_last, cd_last, EVEN);
  v[48] = (model_bytes)_mm512_shuffle_i64x2(ab_last, cd_last, ODD);
}

/* Returns the lower bytes of the entries of 16 bits of a table, in parts of 64, and the upper bytes. */
MODEL_INLINE void turned_words(const int16_t *first, int32_t parts, model_bytes *low,
                               model_bytes *upper)
{
  __m512i words[2];
  MODEL_IN_REGISTERS
  for (int32_t i = 0; i < 2; ++i) {
    const __m512i bits = _mm512_cvtepu8_epi16(((const __m256i_u *)(const void *)low)[i]);
    const __m512i rest = _mm512_cvtepu8_epi16(((const __m256i_u *)(const void *)upper)[i]);
    const __m512i at = _mm512_or_si512(bits, _mm512_slli_epi16(rest, 7));
    const __m512i selected = _mm512_srli_epi16(at, 6);
    const int16_t *part = first;
    __m512i found = at;
    for (int32_t p = 0; p < parts; ++p, part += 64) {
      const __mmask32 here = _mm512_cmpeq_epi16_mask(selected, _mm512_set1_epi16((short)p));
      found = _mm512_mask2_permutex2var_epi16(_mm512_loadu_si512((const void *)part), found, here,
                                              _mm512_loadu_si512((const void *)(part + 32)));
    }
    words[i] = found;
  }
  *low = bytes_of_words(words[0], words[1]);
  *upper = bytes_of_words(_mm512_srli_epi16(words[0], 8), _mm512_srli_epi16(words[1], 8));
}
#endif
