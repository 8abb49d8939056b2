/* The high bits of a product of numbers in units of 2^-31, rounded half up. */
static inline int32_t fixed_point_product(int32_t a, int32_t b)
{
  return (int32_t)((((int64_t)a * b) + (1 << 30)) >> 31);
}
