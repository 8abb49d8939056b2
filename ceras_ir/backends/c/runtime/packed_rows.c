#include "vectors_256.c"
#include "vectors_neon.c"
/* Products with fields of packed weights, in vectors of 8 or 4 words: fields are not negative, so
 * all dot products take them as signed bytes. */
#if MODEL_LANES
typedef uint32_t packed_256 __attribute__((vector_size(32)));
typedef model_256 packed_sum_256;
#define ROW_LOAD_256(p) LOAD_256(p)
#define ROW_FIELD_256(v) ((model_256)(v))
#define ROW_ALL_256(value) ALL_256(value)
#define ROW_DOT_256(sum, x, w) DOT_256(sum, x, w)
#define ROW_JOINED(sum, x, w) _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, w))
#define ROW_STORE_256(p, sum, bias) STORE_256(p, ADD_256(sum, LOAD_256(bias)))
#elif MODEL_NEON
typedef uint32_t packed_128 __attribute__((vector_size(16)));
typedef int32x4_t packed_sum_128;
#define ROW_LOAD_128(p) vld1q_u32((const uint32_t *)(const void *)(p))
#define ROW_FIELD_128(v) vreinterpretq_s8_u32((uint32x4_t)(v))
#define ROW_ALL_128(value) vdupq_n_s32(value)
#if MODEL_NEON >= 2
#define ROW_DOT_128(sum, x, w) vdotq_s32(sum, w, x)
#else
#define ROW_DOT_128(sum, x, w) \
  vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(w)), vmull_high_s8(x, w)))
#endif
#define ROW_STORE_128(p, sum, bias) vst1q_s32(p, vaddq_s32(sum, vld1q_s32(bias)))
#endif

#if MODEL_LANES || MODEL_NEON
/* The sum of the bytes of a window, of which `flip` changes bits: `runs` rows, `pitch` apart, of
 * `pieces` parts of `count` bytes. They are signed for Arm. */
MODEL_TILE int32_t packed_row_total(const void *x, int32_t runs, int32_t pitch, int32_t pieces,
                                    int32_t piece, int32_t count, int32_t flip)
{
  int32_t total = 0;
  for (int32_t run = 0; run < runs; ++run) {
    for (int32_t p = 0; p < pieces; ++p) {
      const uint8_t *const at = (const uint8_t *)x + run * pitch + p * piece;
      int32_t i = 0;
#if MODEL_LANES
      model_256 sums = ALL_256(0);
      for (; i + 31 < count; i += 32)
        sums = ADD_256(sums, _mm256_sad_epu8(_mm256_xor_si256(LOAD_256(at + i),
                                                              _mm256_set1_epi8((char)flip)),
                                             ALL_256(0)));
      int32_t lanes[8];
      STORE_256(lanes, sums);
      total += lanes[0] + lanes[2] + lanes[4] + lanes[6];
      for (; i < count; ++i) total += at[i] ^ flip;
#else
      for (; i + 15 < count; i += 16)
        total += vaddlvq_s8(veorq_s8(NEON_LOAD(at + i), vdupq_n_s8((int8_t)flip)));
      for (; i < count; ++i) total += (int8_t)(at[i] ^ flip);
#endif
    }
  }
  return total;
}
#endif
