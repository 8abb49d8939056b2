#include "vectors_f32.c"
#include "window.c"
/* Computes windows from `position` to `end` of a row, with columns inside or outside of the map of
 * `width`: y = bias plus the sum over the taps inside of x[tap] * weights[tap], with a filter per
 * channel. There are at least MODEL_F32 channels, except for RISC-V. */
#if MODEL_F32 && !MODEL_RVV
MODEL_TILE void depthwise_edge_f32(float *restrict y, const float *restrict x,
                                   const float *restrict weights, const float *restrict bias,
                                   int32_t position, int32_t end, int32_t stride, int32_t left,
                                   int32_t width, int32_t rows, int32_t row, int32_t columns,
                                   int32_t dilation, int32_t channels, float low, float high)
{
  enum { BLOCK = 4 * MODEL_F32 };
  const model_f32v least = ALL_F32(low), most = ALL_F32(high);
  for (int32_t p = position; p < end; ++p) {
    const int32_t x0 = p * stride - left, first = first_tap(x0, dilation);
    const int32_t last = end_tap(x0, dilation, width, columns);
    const float *from = x + x0 * channels, *const w = weights;
    float *const to = y + p * channels;
    int32_t c = 0;
    /* Four vectors of channels at once, because each sum waits for the previous addition. */
    for (; c + BLOCK <= channels; c += BLOCK) {
      const float *const b = bias + c;
      model_f32v s0 = LOAD_F32(b), s1 = LOAD_F32(b + MODEL_F32);
      model_f32v s2 = LOAD_F32(b + 2 * MODEL_F32), s3 = LOAD_F32(b + 3 * MODEL_F32);
      for (int32_t ky = 0; ky < rows; ++ky) {
        for (int32_t kx = first; kx < last; ++kx) {
          const float *const tap = from + ky * row + kx * dilation * channels + c;
          const float *const v = w + (ky * columns + kx) * channels + c;
          s0 = FMA(s0, LOAD_F32(tap), LOAD_F32(v));
          s1 = FMA(s1, LOAD_F32(tap + MODEL_F32), LOAD_F32(v + MODEL_F32));
          s2 = FMA(s2, LOAD_F32(tap + 2 * MODEL_F32), LOAD_F32(v + 2 * MODEL_F32));
          s3 = FMA(s3, LOAD_F32(tap + 3 * MODEL_F32), LOAD_F32(v + 3 * MODEL_F32));
        }
      }
      STORE_F32(to + c, AT_MOST(AT_LEAST(s0, least), most));
      STORE_F32(to + c + MODEL_F32, AT_MOST(AT_LEAST(s1, least), most));
      STORE_F32(to + c + 2 * MODEL_F32, AT_MOST(AT_LEAST(s2, least), most));
      STORE_F32(to + c + 3 * MODEL_F32, AT_MOST(AT_LEAST(s3, least), most));
    }
    for (; c < channels; c += MODEL_F32) {
      /* The last vector begins earlier, so that it is complete. */
      const int32_t at = c < channels - MODEL_F32 ? c : channels - MODEL_F32;
      model_f32v s = LOAD_F32(bias + at);
      for (int32_t ky = 0; ky < rows; ++ky)
        for (int32_t kx = first; kx < last; ++kx)
          s = FMA(s, LOAD_F32(from + ky * row + kx * dilation * channels + at),
                  LOAD_F32(w + (ky * columns + kx) * channels + at));
      STORE_F32(to + at, AT_MOST(AT_LEAST(s, least), most));
    }
  }
}
#elif MODEL_RVV
#include <riscv_vector.h>
MODEL_TILE void depthwise_edge_f32(float *restrict y, const float *restrict x,
                                   const float *restrict weights, const float *restrict bias,
                                   int32_t position, int32_t end, int32_t stride, int32_t left,
                                   int32_t width, int32_t rows, int32_t row, int32_t columns,
                                   int32_t dilation, int32_t channels, float low, float high)
{
  const int32_t step = dilation * channels;
  for (int32_t p = position; p < end; ++p) {
    const int32_t x0 = p * stride - left, first = first_tap(x0, dilation);
    const int32_t last = end_tap(x0, dilation, width, columns);
    const float *const from = x + x0 * channels + first * step;
    const float *const w = weights + first * channels;
    float *const to = y + p * channels;
    for (int32_t c = 0, taken; c < channels; c += taken) {
      const size_t vl = __riscv_vsetvl_e32m8((size_t)(channels - c));
      vfloat32m8_t s = __riscv_vle32_v_f32m8(bias + c, vl);
      taken = (int32_t)vl;
      for (int32_t ky = 0; ky < rows; ++ky) {
        const float *tap = from + ky * row + c, *v = w + ky * columns * channels + c;
        for (int32_t kx = first; kx < last; ++kx, tap += step, v += channels)
          s = __riscv_vfmacc_vv_f32m8(s, __riscv_vle32_v_f32m8(tap, vl),
                                      __riscv_vle32_v_f32m8(v, vl), vl);
      }
      if (low > -INFINITY)
        s = __riscv_vfmerge_vfm_f32m8(s, low, __riscv_vmflt_vf_f32m8_b4(s, low, vl), vl);
      if (high < INFINITY)
        s = __riscv_vfmerge_vfm_f32m8(s, high, __riscv_vmfgt_vf_f32m8_b4(s, high, vl), vl);
      __riscv_vse32_v_f32m8(to + c, s, vl);
    }
  }
}
#endif
