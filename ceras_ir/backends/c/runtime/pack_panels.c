/* Packs rows w [n, k] at a distance of `pitch` to panels of `width` outputs, each
 * [k, width], with zeros after the last output. */
static void pack_panels(float *restrict to, const float *restrict w, int32_t n, int32_t k,
                        int32_t pitch, int32_t width)
{
  for (int32_t b = 0; b < n; b += width) {
    const int32_t outputs = ((n - b) < width) ? (n - b) : width;
    /* A few columns at a time, so that the written elements remain in the cache. */
    for (int32_t start = 0; start < k; start += 16) {
      const int32_t end = ((k - start) < 16) ? k : (start + 16);
      for (int32_t o = 0; o < width; ++o) {
        if (o < outputs) {
          for (int32_t i = start; i < end; ++i) {
            to[(i * width) + o] = w[((b + o) * pitch) + i];
          }
        } else {
          for (int32_t i = start; i < end; ++i) {
            to[(i * width) + o] = 0.0f;
          }
        }
      }
    }
    to += width * k;
  }
}
