#include "vectors_i8.c"
#include "lookup_lanes.c"
#if MODEL_LOOKUP
#include <immintrin.h>
/* Looks up each lane of `at`, 0 to 255, in a table in four parts. */
MODEL_INLINE model_bytes entries_of(const model_bytes *part, model_bytes at)
{
  return look_up(at, part[0], part[1], part[2], part[3], ~__builtin_ia32_cvtb2mask512(at));
}

/* A table of a byte for each distance to the maximum. */
union softmax_bytes {
  model_bytes parts[4];
  uint8_t bytes[256];
};

/* Returns the maximum of 16 signed bytes in each of them, for each 128 bits. */
MODEL_INLINE __m512i largest_of_16(__m512i v)
{
  v = _mm512_max_epi8(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
  v = _mm512_max_epi8(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
  v = _mm512_max_epi8(v, _mm512_rol_epi32(v, 16));
  return _mm512_max_epi8(v, _mm512_rol_epi32(v, 8));
}

/* Writes the two bytes of the exponentials of all distances; those from `last` are equal. */
MODEL_INLINE void split_exponentials(union softmax_bytes *lows, union softmax_bytes *highs,
                                     const int32_t *table, int32_t last)
{
  for (int32_t d = 0; d < 256; ++d) {
    const uint32_t e = (uint32_t)table[d < last ? d : last];
    lows->bytes[d] = e & 0xff;
    highs->bytes[d] = (uint8_t)(e >> 8);
  }
}
#endif
