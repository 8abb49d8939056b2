#include "helium.c"
/* y[i] = table[x[i] + 128]; x and y may be the same array. */
static void helium_lookup(int8_t *y, const int8_t *x, const int8_t *table, int32_t n)
{
#if MODEL_HELIUM
  for (int32_t left = n; left > 0; left -= 16, x += 16, y += 16) {
    const mve_pred16_t p = vctp8q((uint32_t)left);
    const uint8x16_t at = veorq_u8(vreinterpretq_u8_s8(vldrbq_z_s8(x, p)), vdupq_n_u8(128));
    vstrbq_p_s8(y, vldrbq_gather_offset_z_s8(table, at, p), p);
  }
#else
  for (int32_t i = 0; i < n; ++i) y[i] = table[x[i] + 128];
#endif
}
