#include "root_u32.c"
/* Normalizes rows of n stored numbers. `up` is the shift of the squared numbers, and `root_n` is
 * the root of n with `root_shift` fractional bits. */
static void integer_normalize_@NAME@(const @IN@ *restrict x, @OUT@ *restrict y,
                                     const int16_t *restrict scale, const int32_t *restrict bias,
                                     int32_t rows, int32_t n, int32_t centre, int32_t centred,
                                     int32_t up, int64_t epsilon, int32_t root_n,
                                     int32_t root_shift, int32_t shift, int32_t zero_point,
                                     int32_t low, int32_t high)
{
  const int64_t half = shift ? (INT64_C(1) << (shift - 1)) : 0;
  const int64_t factor = (centred ? n : 1) * (INT64_C(1) << ((up > 0) ? up : 0));
  const int32_t down = (up < 0) ? -up : 0;
  for (int32_t r = 0; r < rows; ++r) {
    int64_t sum = 0;
    int64_t power = 0;
    for (int32_t k = 0; k < n; ++k) {
      sum += x[k] - centre;
    }
    const int64_t offset = centred ? (sum * (INT64_C(1) << ((up > 0) ? up : 0))) : 0;
    const int64_t rest = (down ? (INT64_C(1) << (down - 1)) : 0) - offset - (centre * factor);
    for (int32_t k = 0; k < n; ++k) {
      const int64_t c = ((x[k] * factor) + rest) >> down;
      power += c * c;
    }
    const uint64_t w = (uint64_t)(power + epsilon);
    int32_t log2 = 0;
    while ((w >> log2) > 1) {
      ++log2;
    }
    const int32_t t = (log2 - 30) >> 1;
    const uint32_t root = root_u32((uint32_t)((t >= 0) ? (w >> (2 * t)) : (w << (-2 * t))));
    const int64_t m = (int64_t)(((uint32_t)root_n << 17) / root);
    const int32_t to = root_shift + 5 + t;
    for (int32_t k = 0; k < n; ++k) {
      const int64_t c = ((x[k] * factor) + rest) >> down;
      const int64_t z = ((c * m) + (INT64_C(1) << (to - 1))) >> to;
      const int64_t v = (((z * scale[k]) + bias[k] + half) >> shift) + zero_point;
      y[k] = (@OUT@)((v < low) ? low : (v > high) ? high : v);
    }
    x += n;
    y += n;
  }
}
