#include "helium.c"
/* y = a times a factor plus b times a factor, requantized; 16 elements at a time, in the order of
 * `helium_channel`. */
static void helium_sum_@NAME@(int8_t *y, const int8_t *a, const int8_t *b, int32_t n)
{
#if MODEL_HELIUM
  for (int32_t left = n; left > 0; left -= 16, a += 16, b += 16, y += 16) {
    const mve_pred16_t p = vctp8q((uint32_t)left);
    const int8x16_t a8 = vldrbq_z_s8(a, p), b8 = vldrbq_z_s8(b, p);
    const int16x8_t a0 = vmovlbq_s8(a8), a1 = vmovltq_s8(a8);
    const int16x8_t b0 = vmovlbq_s8(b8), b1 = vmovltq_s8(b8);
    int32x4_t v;
    int16x8_t even = vuninitializedq_s16(), odd = vuninitializedq_s16();
@VECTORS@
    int8x16_t bytes = vqmovntq_s16(vqmovnbq_s16(vuninitializedq_s8(), even), odd);
@CLAMP@    vstrbq_p_s8(y, bytes, p);
  }
#else
  for (int32_t i = 0; i < n; ++i) {
@PORTABLE@
  }
#endif
}
