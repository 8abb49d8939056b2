/* `a` where the mask is all ones, `b` where it is 0: without a branch, so that loops over functions
 * that choose become vectors. */
static inline float select_f32(uint32_t mask, float a, float b)
{
  union { float value; uint32_t bits; } x, y;
  x.value = a;
  y.value = b;
  x.bits = (x.bits & mask) | (y.bits & ~mask);
  return x.value;
}
