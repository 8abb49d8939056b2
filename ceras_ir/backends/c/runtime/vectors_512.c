#include "vectors_i8.c"
#include "vectors_256.c"
/* Vectors of 512 bits: 64 bytes, or the sums of 16 lanes. Packing works within 128 bits: of 32
 * channels, vector j of two has channels 8 i + 4 j to 8 i + 4 j + 3 in its 128 bits i. */
#if MODEL_LANES == 16
#include <immintrin.h>
typedef __m512i model_512;
#define LOAD_512(p) _mm512_loadu_si512((const void *)(p))
#define STORE_512(p, v) _mm512_storeu_si512((void *)(p), v)
#define ALL_512(value) _mm512_set1_epi32(value)
/* The words of vector j, of 32 channels at `p`. */
#define LOAD_HALF(p, j) \
  _mm512_shuffle_i32x4(LOAD_512(p), LOAD_512((p) + 64), (j) ? 0xDD : 0x88)
#define EVEN_I8_512(w) _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8)
#define ODD_I8_512(w) _mm512_srai_epi16(w, 8)
/* Widens the first two bytes of each word to 16 bits, or the other two. */
#define LOWER_I8_512(w) \
  _mm512_mask_blend_epi16(0xAAAAAAAAu, EVEN_I8_512(w), _mm512_slli_epi32(ODD_I8_512(w), 16))
#define UPPER_I8_512(w) \
  _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srli_epi32(EVEN_I8_512(w), 16), ODD_I8_512(w))
#define DOT_512(sum, x, w) \
  ((model_512)DOT((model_i32v)(sum), (model_i32v)(x), (model_i32v)(w)))
#define DOT_WORDS_512(sum, x, w) \
  ((model_512)DOT_WORDS((model_i32v)(sum), (model_i32v)(x), (model_i32v)(w)))
#define SCALE_32_512(v, m, after, shift) \
  ((model_512)SCALE_32((model_i32v)(v), (model_i32v)(m), after, shift))
#define SCALE_64_512(v, m, after, shift) \
  ((model_512)SCALE_64((model_i32v)(v), (model_i32v)(m), after, shift))
/* Store a row of two rows of 32 channels that are packed as bytes: even or odd words of 64 bits. */
#define APART(v) _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), v)
#define STORE_EVEN(p, v) STORE_256(p, _mm512_castsi512_si256(APART(v)))
#define STORE_ODD(p, v) STORE_256(p, _mm512_extracti64x4_epi64(APART(v), 1))
/* Interleaves rows a, b, c and d of 32 channels, joined as a and b, c and d: a byte of each in a
 * word. */
#define JOINED(a, b) _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)
#define ALONE(a) _mm512_castsi256_si512(a)
#if defined(__AVX512VBMI__)
#define CHANNEL_BYTES(c) (0x60402000 + 0x01010101 * (c))
#define CHANNELS_512(c) \
  _mm512_setr_epi32(CHANNEL_BYTES(c), CHANNEL_BYTES(c + 1), CHANNEL_BYTES(c + 2), \
                    CHANNEL_BYTES(c + 3), CHANNEL_BYTES(c + 8), CHANNEL_BYTES(c + 9), \
                    CHANNEL_BYTES(c + 10), CHANNEL_BYTES(c + 11), CHANNEL_BYTES(c + 16), \
                    CHANNEL_BYTES(c + 17), CHANNEL_BYTES(c + 18), CHANNEL_BYTES(c + 19), \
                    CHANNEL_BYTES(c + 24), CHANNEL_BYTES(c + 25), CHANNEL_BYTES(c + 26), \
                    CHANNEL_BYTES(c + 27))
#define WORDS_512(ab, cd, j) _mm512_permutex2var_epi8(ab, CHANNELS_512(4 * (j)), cd)
#else
#define PAIRS_512(ab) \
  _mm512_or_si512(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(ab)), \
                  _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(ab, 1)), 8))
#define WORDS_512(ab, cd, j) \
  ((j) ? _mm512_unpackhi_epi16(PAIRS_512(ab), PAIRS_512(cd)) \
       : _mm512_unpacklo_epi16(PAIRS_512(ab), PAIRS_512(cd)))
#endif
#endif
