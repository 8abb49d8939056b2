/* The quotient without its fraction; 0 where the divisor is. */
static uint64_t divide_u64(uint64_t a, uint64_t b)
{
  return b == 0 ? 0 : a / b;
}
