/* The quotient without fraction, or 0 if the divisor is 0. Magnitudes cannot overflow. */
static uint64_t divide_i64(uint64_t a, uint64_t b)
{
  const int minus_a = (a >> 63) != 0;
  const int minus_b = (b >> 63) != 0;
  const uint64_t x = minus_a ? (0 - a) : a;
  const uint64_t y = minus_b ? (0 - b) : b;
  const uint64_t q = (y == 0) ? 0 : (x / y);
  return (minus_a != minus_b) ? (0 - q) : q;
}
