#include "vectors_i8.c"
#include "vectors_256.c"
/* Vectors of BLOCK_LANES outputs of a panel of 16, or 0. BLOCK_DOT(sum, w, x) adds the products of
 * four unsigned bytes of w, up to BLOCK_BYTE, and four signed bytes of x to each lane. Larger bytes
 * are reduced by 128 before a signed product. */
#if MODEL_LANES == 16
#define BLOCK_LANES 16
#define BLOCK_BYTE 255
#elif MODEL_LANES
#define BLOCK_LANES 8
#if MODEL_QUADS
#define BLOCK_BYTE 127
#else
#define BLOCK_BYTE 255
#endif
#elif MODEL_NEON
#include <arm_neon.h>
#define BLOCK_LANES 4
#define BLOCK_BYTE 127
#else
#define BLOCK_LANES 0
#endif
#if BLOCK_LANES
enum { BLOCK_PARTS = 16 / BLOCK_LANES, BLOCK_ROWS = BLOCK_LANES == 16 ? 4 : BLOCK_LANES == 8 ? 2 : 1 };
typedef int32_t block_i32 __attribute__((vector_size(4 * BLOCK_LANES)));
typedef float block_f32 __attribute__((vector_size(4 * BLOCK_LANES)));
typedef int8_t block_i8 __attribute__((vector_size(BLOCK_LANES)));
typedef uint8_t block_u8 __attribute__((vector_size(BLOCK_LANES), aligned(1), may_alias));
typedef uint16_t block_u16 __attribute__((vector_size(2 * BLOCK_LANES), aligned(2), may_alias));
typedef int32_t block_i32u __attribute__((vector_size(4 * BLOCK_LANES), aligned(1), may_alias));
typedef float block_f32u __attribute__((vector_size(4 * BLOCK_LANES), aligned(4), may_alias));
typedef int8_t block_i8u __attribute__((vector_size(BLOCK_LANES), aligned(1), may_alias));
typedef int32_t block_word __attribute__((aligned(1), may_alias));
#define BLOCK_LOAD(p) (*(const block_i32u *)(const void *)(p))
#define BLOCK_LOAD_F32(p) (*(const block_f32u *)(const void *)(p))
#define BLOCK_LOAD_U8(p) \
  __builtin_convertvector(*(const block_u8 *)(const void *)(p), block_i32)
/* Finite float16. */
#if MODEL_LANES == 16
#define BLOCK_LOAD_F16(p) ((block_f32)_mm512_cvtph_ps(LOAD_256(p)))
#elif MODEL_LANES && defined(__F16C__)
#define BLOCK_LOAD_F16(p) ((block_f32)_mm256_cvtph_ps(HALF_256(p)))
#elif MODEL_NEON
#define BLOCK_LOAD_F16(p) ((block_f32)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))))
#else
#define BLOCK_LOAD_F16(p) block_halves(p)
MODEL_INLINE block_f32 block_halves(const uint16_t *p)
{
  const block_i32 half = __builtin_convertvector(*(const block_u16 *)(const void *)p, block_i32);
  const block_i32 magnitude = half & 0x7FFF, bits = (magnitude << 13) + 0x38000000;
  /* The values below 2^-14 are multiples of 2^-24. */
  const block_i32 small = (block_i32)(__builtin_convertvector(magnitude, block_f32) / 16777216.0f);
  const block_i32 is_small = magnitude < 0x400;
  return (block_f32)((small & is_small) | (bits & ~is_small) | (half & 0x8000) << 16);
}
#endif
#define BLOCK_ALL(value) ((block_i32){0} + (value))
#define BLOCK_SPLAT(p) BLOCK_ALL(*(const block_word *)(const void *)(p))
#if MODEL_LANES == 16
#define BLOCK_DOT(sum, w, x) ((block_i32)DOT((model_i32v)(sum), (model_i32v)(w), (model_i32v)(x)))
#elif MODEL_QUADS
/* Bytes up to 127 are exact in sums of two; bytes less 128 need 16 bits each. */
#define BLOCK_DOT(sum, w, x) \
  ((block_i32)DOT_PAIRS_256((__m256i)(sum), (__m256i)(w), (__m256i)(x)))
#define BLOCK_SIGNED_DOT(sum, w, x) \
  ((block_i32)DOT_WORDS_256(DOT_WORDS_256((__m256i)(sum), EVEN_I8((__m256i)(w)), \
                                          EVEN_I8((__m256i)(x))), \
                            ODD_I8((__m256i)(w)), ODD_I8((__m256i)(x))))
#elif MODEL_LANES
#define BLOCK_DOT(sum, w, x) ((block_i32)DOT_256((__m256i)(sum), (__m256i)(w), (__m256i)(x)))
#elif MODEL_NEON >= 2
#define BLOCK_DOT(sum, w, x) ((block_i32)vdotq_s32((int32x4_t)(sum), (int8x16_t)(w), (int8x16_t)(x)))
#else
#define BLOCK_DOT(sum, w, x) ((sum) + block_dot(w, x))
MODEL_INLINE block_i32 block_dot(block_i32 w, block_i32 x)
{
  const int8x16_t a = (int8x16_t)w, b = (int8x16_t)x;
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
  return (block_i32)vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
}
#endif
#if !defined(BLOCK_SIGNED_DOT)
#define BLOCK_SIGNED_DOT(sum, w, x) BLOCK_DOT(sum, w, x)
#endif
#endif
