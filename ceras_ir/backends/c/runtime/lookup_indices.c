#include "lookup_lanes.c"
/* Lookups of words of 16 bits. An instruction looks up in 128 entries by the low seven bits of an
 * index; the upper bits select the lanes that use the result. */
#if MODEL_LOOKUP
#include <immintrin.h>
/* Returns the lower bytes of 64 words. */
MODEL_INLINE model_bytes bytes_of_words(__m512i first, __m512i last)
{
  const __m512i half = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(first));
  return (model_bytes)_mm512_inserti64x4(half, _mm512_cvtepi16_epi8(last), 1);
}

/* Returns the low seven bits and the upper bits of the indices of 64 words, which are clamped to
 * `lowest` (index 0) and `highest`. */
MODEL_INLINE void split_indices(model_bytes *low, model_bytes *upper, __m512i first, __m512i last,
                                __m512i lowest, __m512i highest)
{
  first = _mm512_sub_epi16(_mm512_min_epi16(_mm512_max_epi16(first, lowest), highest), lowest);
  last = _mm512_sub_epi16(_mm512_min_epi16(_mm512_max_epi16(last, lowest), highest), lowest);
  *low = bytes_of_words(first, last);
  *upper = bytes_of_words(_mm512_srli_epi16(first, 7), _mm512_srli_epi16(last, 7));
}

/* Replaces these lanes of `low` by the entries of a table of bytes, in parts of 128. */
MODEL_INLINE model_bytes look_up_parts(model_bytes low, model_bytes upper, const int8_t *part,
                                       int32_t parts, uint64_t lanes)
{
  __m512i found = (__m512i)low;
  for (int32_t p = 0; p < parts; ++p, part += 128) {
    const __mmask64 here =
        _mm512_mask_cmpeq_epi8_mask(lanes, (__m512i)upper, _mm512_set1_epi8((char)p));
    found = _mm512_mask2_permutex2var_epi8(_mm512_loadu_si512((const void *)part), found, here,
                                           _mm512_loadu_si512((const void *)(part + 64)));
  }
  return (model_bytes)found;
}
#endif
