/* Packs w [k, n], rows at a distance of `pitch`, to panels of `width` outputs, each [k, width], with
 * zeros after the last output. */
static void pack_columns(float *restrict to, const float *restrict w, int32_t n, int32_t k,
                         int32_t pitch, int32_t width)
{
  for (int32_t b = 0; b < n; b += width) {
    const int32_t outputs = ((n - b) < width) ? (n - b) : width;
    for (int32_t i = 0; i < k; ++i) {
      (void)memcpy(to, w + ((i * pitch) + b), (size_t)outputs * sizeof *to);
      for (int32_t o = outputs; o < width; ++o) {
        to[o] = 0.0f;
      }
      to += width;
    }
  }
}
