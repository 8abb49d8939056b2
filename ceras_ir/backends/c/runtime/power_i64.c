/* Like power_u64. A reciprocal is truncated, and the reciprocal of 0 is 0. */
static uint64_t power_i64(uint64_t a, uint64_t b)
{
  if ((b >> 63) == 0) {
    return power_u64(a, b);
  }
  return ((a == 1) || (a == ~UINT64_C(0))) ? power_u64(a, b & 1) : 0;
}
