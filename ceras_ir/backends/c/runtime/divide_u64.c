/* The quotient without fraction, or 0 if the divisor is 0. */
static uint64_t divide_u64(uint64_t a, uint64_t b)
{
  return (b == 0) ? 0 : (a / b);
}
