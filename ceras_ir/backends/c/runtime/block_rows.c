#include "dsp.c"
#include "helium.c"
/* The same as `block_products` for panels of an output, with two products in an instruction, or
 * with 16 of weights of 4 bits in Helium. Bytes of 8 bits are reduced by 128. */
static void block_rows_@NAME@(int32_t n, int32_t rows, int32_t blocks, int32_t size,
                         const int8_t *restrict x, const float *restrict steps,
                         const int32_t *restrict sums, const uint8_t *restrict w,
                         const @SCALE@ *restrict scales, const uint8_t *restrict points,
                         const float *restrict bias, float *restrict y, int32_t pitch)
{
  enum { FIELDS = 8 / @BITS@, LESS = @BITS@ == 8 ? 128 : 0, MIDDLE = (1 << (@BITS@ - 1)) - LESS };
  const uint32_t mask = ((1u << @BITS@) - 1) * 0x01010101u;
  const int32_t row = blocks * size, bytes = row / FIELDS;
  for (int32_t o = 0; o < n; ++o, w += bytes, scales += blocks) {
    const int8_t *from = x;
    for (int32_t r = 0; r < rows; ++r) {
      const int8_t *packed = (const int8_t *)w;
      float total = 0.0f;
      for (int32_t b = 0; b < blocks; ++b) {
        const int32_t point = points ? points[o * blocks + b] - LESS : MIDDLE;
        int32_t dot = -point * sums[r * blocks + b];
        int32_t i = 0;
#if MODEL_HELIUM
        /* Even words of x are multiplied by the low halves of bytes, odd words by the others. */
        for (; FIELDS == 2 && i + 32 <= size; i += 32, packed += 16, from += 32) {
          const uint8x16_t w = vldrbq_u8((const uint8_t *)packed);
          const int32x4x2_t v = vld2q_s32((const int32_t *)(const void *)from);
          const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
          const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
          dot = vmladavaq_s8(dot, low, vreinterpretq_s8_s32(v.val[0]));
          dot = vmladavaq_s8(dot, high, vreinterpretq_s8_s32(v.val[1]));
        }
#endif
        for (; i < size; i += 4 * FIELDS, packed += 4, from += 4 * FIELDS) {
          const uint32_t fields = dsp_read_constant(packed) ^ (LESS * 0x01010101u);
          MODEL_IN_REGISTERS
          for (int32_t f = 0; f < FIELDS; ++f) {
            const uint32_t field = fields >> (f * @BITS@) & mask, v = dsp_read(from + 4 * f);
            dot = dsp_smlad(dsp_even(field), dsp_even(v), dot);
            dot = dsp_smlad(dsp_odd(field), dsp_odd(v), dot);
            DSP_IN_ORDER;
          }
        }
        total += (float)dot * (steps[r * blocks + b] * @LOAD@(scales[b]));
      }
      y[r * pitch + o] = bias ? total + bias[o] : total;
    }
  }
}
