#include "vectors_i8.c"
/* Sums of 16 positions for each output, shifted and clamped to bytes, over themselves. */
#if MODEL_LANES == 16
static void narrow_planes(int32_t *sums, const int32_t *bias, int32_t outputs, int32_t shift,
                          int32_t low, int32_t high)
{
  const model_i32v least = ALL_I32(low), most = ALL_I32(high);
  char *to = (char *)sums;
  for (int32_t o = 0; o < outputs; ++o, sums += 16, to += 16) {
    const model_i32v v = (LOAD_I32(sums) + ALL_I32(bias[o])) >> shift;
    STORE_I8(to, CLAMP(v, least, most), -1);
  }
}
#endif
