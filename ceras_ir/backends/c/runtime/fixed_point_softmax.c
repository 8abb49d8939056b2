#include "fixed_point_product.c"

/* Softmax of rows of n bytes: exponentials of the distance to the maximum from a table in units of
 * 2^-31, and the reciprocal of their sum by three steps of Newton's method. */
static void fixed_point_softmax_@NAME@(const int8_t *restrict x, @OUT@ *restrict y,
                                       const int32_t *restrict table, int32_t rows, int32_t n)
{
  const int32_t bits = 8 * (int32_t)sizeof(@OUT@);
  const int32_t low = -(1 << (bits - 1));
  const int32_t high = -low - 1;
  for (int32_t i = 0; i < rows; ++i) {
    int32_t most = x[0];
    int32_t sum = 0;
    int32_t zeros = 0;
    for (int32_t k = 1; k < n; ++k) {
      most = (x[k] > most) ? x[k] : most;
    }
    for (int32_t k = 0; k < n; ++k) {
      const int32_t e = table[most - x[k]];
      sum += (e >> 12) + ((e >> 11) & 1);
    }
    uint32_t half = (uint32_t)sum;
    for (; half < UINT32_C(0x80000000); half <<= 1) {
      ++zeros;
    }
    half >>= 1;
    int32_t r = 1515870810 + fixed_point_product((int32_t)half, -1010580540);
    for (int step = 0; step < 3; ++step) {
      r += fixed_point_product(r, (1 << 29) - fixed_point_product((int32_t)half, r)) * 4;
    }
    r = (r > (INT32_MAX / 2)) ? INT32_MAX : (2 * r);
    const int32_t shift = 43 - bits - zeros;
    for (int32_t k = 0; k < n; ++k) {
      const int32_t p = fixed_point_product(r, table[most - x[k]]);
      const int32_t v = (int32_t)((p + (INT64_C(1) << (shift - 1))) >> shift) + low;
      y[k] = (@OUT@)((v > high) ? high : v);
    }
    x += n;
    y += n;
  }
}
