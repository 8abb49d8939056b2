/* a to the power of b by squaring, modulo 2^64. */
static uint64_t power_u64(uint64_t a, uint64_t b)
{
  uint64_t r = 1;
  for (; b != 0; b >>= 1) {
    if (b & 1) {
      r *= a;
    }
    a *= a;
  }
  return r;
}
