/* Vectors of 64-bit Arm for register tiles: 16 bytes of the input, or four bytes in all lanes, as
 * signed bytes. Unsigned bytes are moved by -128, which the bias corrects. */
#if MODEL_NEON
#include <arm_neon.h>
typedef int32_t model_neon_word __attribute__((aligned(1), may_alias));
#define NEON_WORD(p) \
  vreinterpretq_s8_s32(vdupq_n_s32(*(const model_neon_word *)(const void *)(p)))
#define NEON_ELEMENT(v, i) vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(v), i))
#define NEON_HELD(v) __asm__("" : "+w"(v))
#define NEON_LOAD(p) vld1q_s8((const int8_t *)(p))
#define NEON_FLIPPED(v) veorq_s8(v, vdupq_n_s8(-128))
/* Loads after it remain after it, so that registers hold the weights of a step only. */
#define NEON_ORDER __asm__ volatile("" ::: "memory");
/* Loads four or two vectors of weights, and advances by `width` floats. */
#if defined(__clang__)
#define NEON_NEXT_4(v, w, width) (v = vld1q_f32_x4(w), w += (width))
#define NEON_NEXT_2(v, w, width) (v = vld1q_f32_x2(w), w += (width))
#else
/* gcc needs a further instruction to advance. Loads remain in order, so that registers hold the
 * weights of a step only. */
#define NEON_NEXT_4(v, w, width) \
  __asm__ volatile("ld1 {%S0.4s - %V0.4s}, [%1], %2" \
                   : "=w"(v), "+r"(w) : "r"(4 * (int64_t)(width)) : "memory")
#define NEON_NEXT_2(v, w, width) \
  __asm__ volatile("ld1 {%S0.4s - %T0.4s}, [%1], %2" \
                   : "=w"(v), "+r"(w) : "r"(4 * (int64_t)(width)) : "memory")
#endif
/* Vectors of 4 j outputs, and of the 16 bytes from two rows. */
#define NEON_STORE_SUMS(p, a, b, c, d) \
  (vst1q_s32(p, a), vst1q_s32((p) + 4, b), vst1q_s32((p) + 8, c), vst1q_s32((p) + 12, d))
#define NEON_LOWER(a, b) \
  vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)))
#define NEON_UPPER(a, b) \
  vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)))
/* Rows of eight bytes, four from each vector: of two outputs, and of the next two. */
#define NEON_FIRST(a, b) \
  vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)))
#define NEON_SECOND(a, b) \
  vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)))
/* Two outputs of a vector, for two positions; the sums of both outputs of a position, of two
 * vectors. */
#define NEON_TWICE(v, i) \
  vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(v), i))
#define NEON_ROW_0(a, b) \
  vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)))
#define NEON_ROW_1(a, b) \
  vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)))
/* Long products of the halves of 16 bytes, added to two vectors of sums: of one step, and of two
 * steps, of which the products are first added as 16 bits, or not. */
#define NEON_ADD(low, high, w, x) \
  (low = vpadalq_s16(low, vmull_s8(vget_low_s8(w), vget_low_s8(x))), \
   high = vpadalq_s16(high, vmull_high_s8(w, x)))
#define NEON_ADD_EACH(low, high, w, x, v, y) (NEON_ADD(low, high, w, x), NEON_ADD(low, high, v, y))
#define NEON_ADD_PAIR(low, high, w, x, v, y) \
  (t = vmlal_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vget_low_s8(v), vget_low_s8(y)), \
   low = vpadalq_s16(low, t), \
   t = vmlal_high_s8(vmull_high_s8(w, x), v, y), high = vpadalq_s16(high, t))
/* The output stage of eight sums a, b: (sum * multiplier + after) >> shift, with products of 32
 * bits or of 64, and stores that saturate and clamp. */
#define NEON_SHIFTED(v, shift) vshlq_s32(v, vdupq_n_s32(-(shift)))
#define NEON_SHIFTED_BY(v, shifts) vshlq_s32(v, vnegq_s32(vld1q_s32(shifts)))
#define NEON_SCALED_32(v, m, after, shift) \
  NEON_SHIFTED(vmlaq_s32(vdupq_n_s32(after), v, vld1q_s32(m)), shift)
static inline int32x4_t neon_scaled_64(int32x4_t v, int32x4_t m, int64_t after, int32_t shift)
{
  const int64x2_t add = vdupq_n_s64(after), by = vdupq_n_s64(-shift);
  const int64x2_t low = vshlq_s64(vmlal_s32(add, vget_low_s32(v), vget_low_s32(m)), by);
  return vmovn_high_s64(vmovn_s64(low), vshlq_s64(vmlal_high_s32(add, v, m), by));
}
#define NEON_SCALED_64(v, m, after, shift) neon_scaled_64(v, vld1q_s32(m), after, shift)
#define NEON_HALVES(a, b) vqmovn_high_s32(vqmovn_s32(a), b)
#define NEON_STORE_int8_t(p, a, b, low, high) \
  vst1_s8(p, vmin_s8(vmax_s8(vqmovn_s16(NEON_HALVES(a, b)), vdup_n_s8((int8_t)(low))), \
                     vdup_n_s8((int8_t)(high))))
#define NEON_STORE_uint8_t(p, a, b, low, high) \
  vst1_u8(p, vmin_u8(vmax_u8(vqmovun_s16(NEON_HALVES(a, b)), vdup_n_u8((uint8_t)(low))), \
                     vdup_n_u8((uint8_t)(high))))
#define NEON_STORE_int16_t(p, a, b, low, high) \
  vst1q_s16(p, vminq_s16(vmaxq_s16(NEON_HALVES(a, b), vdupq_n_s16((int16_t)(low))), \
                         vdupq_n_s16((int16_t)(high))))
#endif
