/* y[i] = low[at] + 256 * high[at], at = first[i % channels] + x[i], of n elements. Bytes have no
 * `high`, and x and y may be the same array. */
MODEL_STATIC void lookup_channels_@NAME@(@Y@ *y, const int8_t *x, const @LOW@ *low, const int8_t *high,
                                  const int32_t *first, int32_t channels, int32_t n)
{
  enum { HAS_HIGH = sizeof(@Y@) == 2 };
  for (int32_t i = 0, c = 0; i < n; ++i) {
    const int32_t at = first[c] + x[i];
    y[i] = (@Y@)(low[at] + (HAS_HIGH ? high[at] * 256 : 0));
    c = c + 1 < channels ? c + 1 : 0;
  }
}
