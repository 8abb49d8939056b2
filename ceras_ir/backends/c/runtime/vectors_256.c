/* Vectors of 256 bits: 32 bytes, or the sums of 8 lanes. Unpacking and packing work within 128
 * bits: of 16 channels in a row, vector j of four gets channels 4 j to 4 j + 3. */
#if MODEL_LANES
#include <immintrin.h>
typedef __m256i model_256;
#define LOAD_256(p) _mm256_loadu_si256((const model_256 *)(const void *)(p))
#define STORE_256(p, v) _mm256_storeu_si256((model_256 *)(void *)(p), v)
#define LOAD_BYTES_256(p) LOAD_256(p)
/* Widens 16 bytes to 16 bits each. */
#define LOAD_WORDS_256(p) _mm256_cvtepi8_epi16(HALF_256(p))
#define HALF_256(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
/* Four words at `p`, and the four words at a distance in bytes. */
#define LOAD_PAIR(p, gap) \
  _mm256_inserti128_si256(_mm256_castsi128_si256(HALF_256(p)), HALF_256((p) + (gap)), 1)
/* Four bytes of the input, or two words, repeated in all lanes. */
typedef int32_t model_word_256 __attribute__((aligned(1), may_alias));
#define SPLAT_256(p) _mm256_set1_epi32(*(const model_word_256 *)(const void *)(p))
#define SPLAT_MOVED_256(p) _mm256_xor_si256(SPLAT_256(p), _mm256_set1_epi8(-128))
#define ALL_256(value) _mm256_set1_epi32(value)
#define ADD_256(a, b) _mm256_add_epi32(a, b)
#define EVEN_I8(w) _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8)
#define ODD_I8(w) _mm256_srai_epi16(w, 8)
/* Widens the first two bytes of each word to 16 bits, or the other two. */
#define LOWER_I8(w) _mm256_blend_epi16(EVEN_I8(w), _mm256_slli_epi32(ODD_I8(w), 16), 0xAA)
#define UPPER_I8(w) _mm256_blend_epi16(_mm256_srli_epi32(EVEN_I8(w), 16), ODD_I8(w), 0xAA)
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define DOT_256(sum, x, w) _mm256_dpbusd_epi32(sum, x, w)
#define DOT_WORDS_256(sum, x, w) _mm256_dpwssd_epi32(sum, x, w)
#elif defined(__AVXVNNI__)
#define DOT_256(sum, x, w) _mm256_dpbusd_avx_epi32(sum, x, w)
#else
/* Without a dot-product instruction: products of even or of odd bytes as 16 bits. If sums of two
 * products fit 16 bits, or sums of four of two steps, they are added before they are widened. */
#define EVEN_U8(x) _mm256_and_si256(x, _mm256_set1_epi16(255))
#define ODD_U8(x) _mm256_srli_epi16(x, 8)
#define DOT_256(sum, x, w) \
  DOT_WORDS_256(DOT_WORDS_256(sum, EVEN_U8(x), EVEN_I8(w)), ODD_U8(x), ODD_I8(w))
#define DOT_PAIRS_256(sum, x, w) WIDEN_SUMS_256(sum, _mm256_maddubs_epi16(x, w))
#define DOT_QUADS_256(sum, x, w, z, v) \
  WIDEN_SUMS_256(sum, _mm256_add_epi16(_mm256_maddubs_epi16(x, w), _mm256_maddubs_epi16(z, v)))
#define WIDEN_SUMS_256(sum, v) ADD_256(sum, _mm256_madd_epi16(v, _mm256_set1_epi16(1)))
#endif
#if !defined(DOT_WORDS_256)
#define DOT_WORDS_256(sum, x, w) ADD_256(sum, _mm256_madd_epi16(x, w))
#endif
/* (sum * multiplier + after) >> shift, with products of 32 bits, or of 64. Vectors of 64 bits have
 * no arithmetic shift, so the upper 32 bits are shifted if the result is in them. */
#define SCALE_32_256(v, m, after, shift) \
  _mm256_srai_epi32(ADD_256(_mm256_mullo_epi32(v, m), ALL_256(after)), shift)
#define SCALE_64_256(v, m, after, shift) \
  _mm256_blend_epi32(SCALED_256(v, m, after, shift), \
                     _mm256_slli_epi64(SCALED_256(_mm256_srli_epi64(v, 32), \
                                                  _mm256_srli_epi64(m, 32), after, shift), 32), 0xAA)
#define SCALED_256(v, m, after, shift) \
  ((shift) > 32 ? _mm256_srai_epi32(_mm256_srli_epi64(PRODUCT_256(v, m, after), 32), (shift) - 32) \
                : _mm256_srli_epi64(PRODUCT_256(v, m, after), shift))
#define PRODUCT_256(v, m, after) \
  _mm256_add_epi64(_mm256_mul_epi32(v, m), _mm256_set1_epi64x(after))
/* Converts four vectors of 8 sums to two vectors of 16 numbers of 16 bits. */
#define LOWER_16(a, b, c, d) \
  _mm256_permute2x128_si256(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d), 0x20)
#define UPPER_16(a, b, c, d) \
  _mm256_permute2x128_si256(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d), 0x31)
/* Packs 16 numbers of 16 bits to bytes, by a function that packs two vectors. */
#define STORE_PACKED_256(p, v, pack) \
  _mm_storeu_si128((__m128i *)(void *)(p), \
                   pack(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)))
#endif
