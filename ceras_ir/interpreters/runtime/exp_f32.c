#include "exp_reduced_f32.c"
/* exp(x), the same bits on every machine; within 1.4 units of the last place. Not a number stays
 * one. */
static inline float exp_f32(float x)
{
  /* Masks where branches would do, so that loops over this function become vectors; on the result,
   * so that nothing waits for them. */
  const uint32_t below = -(uint32_t)(x < @EXP_LOW@);
  const uint32_t above = -(uint32_t)(x > @EXP_HIGH@);
  union { float value; uint32_t bits; } y;
  float scale;
  const float t = exp_reduced_f32(x, &scale);
  y.value = (t + 1.0f) * scale;
  y.bits = (y.bits & ~(below | above)) | (above & 0x7F800000u);
  return y.value;
}
