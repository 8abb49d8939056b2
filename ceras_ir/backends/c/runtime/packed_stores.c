#include "vectors_i8.c"
/* Packs four vectors of sums to bytes, signed or unsigned, or two to words, in their order and
 * saturated. Packing is faster than narrowing each vector separately. */
#if MODEL_LANES == 16
#include <immintrin.h>
typedef __m512i model_packed;
#define PACKED_ORDER _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
#define PACKED_WORDS(a, b) _mm512_packs_epi32((__m512i)(a), (__m512i)(b))
#define IN_ORDER(packed) _mm512_permutexvar_epi32(PACKED_ORDER, packed)
#define PACKED_I8(a, b, c, d) \
  IN_ORDER(_mm512_packs_epi16(PACKED_WORDS(a, b), PACKED_WORDS(c, d)))
#define PACKED_U8(a, b, c, d) \
  IN_ORDER(_mm512_packus_epi16(PACKED_WORDS(a, b), PACKED_WORDS(c, d)))
#define WORDS_ORDER _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7)
#define PACKED_I16(a, b) _mm512_permutexvar_epi64(WORDS_ORDER, PACKED_WORDS(a, b))
#define ALL_I16(value) _mm512_set1_epi16((short)(value))
#define MAX_I16(a, b) _mm512_max_epi16(a, b)
#define MIN_I16(a, b) _mm512_min_epi16(a, b)
#define CLAMP_I16(v, low, high) MIN_I16(MAX_I16(v, low), high)
#define ALL_I8(value) _mm512_set1_epi8((char)(value))
#define MAX_I8(a, b) _mm512_max_epi8(a, b)
#define MIN_I8(a, b) _mm512_min_epi8(a, b)
#define CLAMP_I8(v, low, high) MIN_I8(MAX_I8(v, low), high)
#define ALL_U8(value) ALL_I8(value)
#define MAX_U8(a, b) _mm512_max_epu8(a, b)
#define MIN_U8(a, b) _mm512_min_epu8(a, b)
#define CLAMP_U8(v, low, high) MIN_U8(MAX_U8(v, low), high)
#define STORE_WHOLE(p, v) _mm512_storeu_si512((void *)(p), v)
#define STORE_QUARTER(p, v, n) \
  _mm_storeu_si128((__m128i *)(void *)(p), _mm512_extracti32x4_epi32(v, n))
#define STORE_HALF(p, v, n) \
  _mm256_storeu_si256((__m256i *)(void *)(p), _mm512_extracti64x4_epi64(v, n))
#endif
