#include "vectors_neon.c"
/* Taps of depthwise windows. On 64-bit Arm, 16 channels: products of bytes in 16 bits, of one tap or
 * of two, are added to the sums s0 to s3; elements of 16 bits are multiplied to 32 bits. On RISC-V,
 * the channels that four registers of 16 bits hold. */
#if MODEL_NEON
#define NEON_TAP(x, w) (l = vmull_s8(vget_low_s8(x), vget_low_s8(w)), h = vmull_high_s8(x, w))
#define NEON_NEXT_TAP(x, w) \
  (l = vmlal_s8(l, vget_low_s8(x), vget_low_s8(w)), h = vmlal_high_s8(h, x, w))
#define NEON_ADD_TAPS(a, b, c, d) \
  (s0 = vaddw_s16(a, vget_low_s16(l)), s1 = vaddw_high_s16(b, l), \
   s2 = vaddw_s16(c, vget_low_s16(h)), s3 = vaddw_high_s16(d, h))
#define NEON_ADD_WORDS(a, b, c, d, p, u, v) \
  (s0 = vmlal_s16(a, vget_low_s16(vld1q_s16(p)), vget_low_s16(u)), \
   s1 = vmlal_high_s16(b, vld1q_s16(p), u), \
   s2 = vmlal_s16(c, vget_low_s16(vld1q_s16((p) + 8)), vget_low_s16(v)), \
   s3 = vmlal_high_s16(d, vld1q_s16((p) + 8), v))
#elif MODEL_RVV
#include <riscv_vector.h>
#define RVV_BYTES(p) __riscv_vle8_v_i8m2((const int8_t *)(p), vl)
#define RVV_FLIPPED(p) __riscv_vxor_vx_i8m2(RVV_BYTES(p), -128, vl)
#define RVV_TAP(x, w) (t = __riscv_vwmul_vv_i16m4(x, RVV_BYTES(w), vl))
#define RVV_NEXT_TAP(x, w) (t = __riscv_vwmacc_vv_i16m4(t, x, RVV_BYTES(w), vl))
#define RVV_ADD_TAPS(s) (s = __riscv_vwadd_wv_i32m8(s, t, vl))
#define RVV_ADD_WORDS(s, p, w) \
  (s = __riscv_vwmacc_vv_i32m8(s, __riscv_vle16_v_i16m4(p, vl), \
                               __riscv_vsext_vf2_i16m4(RVV_BYTES(w), vl), vl))
/* (v * m + after) >> shift of both halves of eight registers, with products of 64 bits. */
static inline vint32m8_t rvv_scaled_64(vint32m8_t v, const int32_t *m, int64_t after,
                                       int32_t shift, size_t vl)
{
  const size_t half = __riscv_vsetvlmax_e32m4(), low = vl < half ? vl : half, high = vl - low;
  vint64m8_t p = __riscv_vwmul_vv_i64m8(__riscv_vget_v_i32m8_i32m4(v, 0),
                                        __riscv_vle32_v_i32m4(m, low), low);
  p = __riscv_vadd_vx_i64m8(p, after, low);
  v = __riscv_vset_v_i32m4_i32m8(v, 0, __riscv_vncvt_x_x_w_i32m4(
      __riscv_vsra_vx_i64m8(p, (size_t)shift, low), low));
  if (high == 0) return v;
  p = __riscv_vwmul_vv_i64m8(__riscv_vget_v_i32m8_i32m4(v, 1),
                             __riscv_vle32_v_i32m4(m + half, high), high);
  p = __riscv_vadd_vx_i64m8(p, after, high);
  return __riscv_vset_v_i32m4_i32m8(v, 1, __riscv_vncvt_x_x_w_i32m4(
      __riscv_vsra_vx_i64m8(p, (size_t)shift, high), high));
}
/* Copies filters from [columns][rows / 4][padded channels][4] to [rows][columns][channels]. */
static void rvv_filters(int8_t *restrict to, const int8_t *restrict from, int32_t rows,
                        int32_t columns, int32_t channels, int32_t padded)
{
  for (int32_t j = 0; j < columns; ++j)
    for (int32_t k = 0; k < rows; k += 4, from += 4 * padded)
      for (int32_t c = 0, taken; c < channels; c += taken) {
        const size_t vl = __riscv_vsetvl_e8m2((size_t)(channels - c));
        const vint8m2x4_t v = __riscv_vlseg4e8_v_i8m2x4(from + 4 * c, vl);
        const int32_t row = columns * channels;
        int8_t *const p = to + k * row + j * channels + c;
        __riscv_vse8_v_i8m2(p, __riscv_vget_v_i8m2x4_i8m2(v, 0), vl);
        if (k + 1 < rows) __riscv_vse8_v_i8m2(p + row, __riscv_vget_v_i8m2x4_i8m2(v, 1), vl);
        if (k + 2 < rows) __riscv_vse8_v_i8m2(p + 2 * row, __riscv_vget_v_i8m2x4_i8m2(v, 2), vl);
        if (k + 3 < rows) __riscv_vse8_v_i8m2(p + 3 * row, __riscv_vget_v_i8m2x4_i8m2(v, 3), vl);
        taken = (int32_t)vl;
      }
}
#endif
