/* Packs rows w [n, k] to panels of `width` outputs, each [steps, width, @STEP@], with zeros after
 * the last row and the last product. */
static void pack_bytes_@NAME@(int8_t *restrict to, const int8_t *restrict w, int32_t n, int32_t k,
                         int32_t width)
{
  const int32_t whole = k / @STEP@;
  const int32_t rest = k % @STEP@;
  const int32_t steps = whole + (rest > 0);
  for (int32_t b = 0; b < n; b += width) {
    const int32_t outputs = ((n - b) < width) ? (n - b) : width;
    if ((outputs < width) || (rest > 0)) {
      (void)memset(to, 0, (size_t)steps * width * @STEP@);
    }
    /* A few steps at a time, so that the written bytes remain in the cache. */
    for (int32_t first = 0; first < whole; first += 16) {
      const int32_t end = ((whole - first) < 16) ? whole : (first + 16);
      for (int32_t o = 0; o < outputs; ++o) {
        for (int32_t i = first; i < end; ++i) {
          (void)memcpy(&to[((i * width) + o) * @STEP@], &w[((b + o) * k) + (i * @STEP@)], @STEP@);
        }
      }
    }
    if (rest > 0) {
      for (int32_t o = 0; o < outputs; ++o) {
        const int8_t *const from = &w[((b + o) * k) + (whole * @STEP@)];
        (void)memcpy(&to[((whole * width) + o) * @STEP@], from, rest);
      }
    }
    to += steps * width * @STEP@;
  }
}
