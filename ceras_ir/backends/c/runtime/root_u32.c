/* The integer part of the square root. */
static uint32_t root_u32(uint32_t x)
{
  uint32_t root = 0;
  for (uint32_t bit = UINT32_C(1) << 30; bit; bit >>= 2) {
    const uint32_t sum = root + bit;
    root >>= 1;
    if (x >= sum) {
      x -= sum;
      root += bit;
    }
  }
  return root;
}
