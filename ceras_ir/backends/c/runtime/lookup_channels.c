#include "lookup_lanes.c"
/* y[i] = table[first[i % channels] + x[i]], of n elements; x and y may be the same array. */
MODEL_STATIC void lookup_channels(int8_t *y, const int8_t *x, const int8_t *table,
                                  const int32_t *first, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* 64 elements are looked up in each table in turn, and each table fills its lanes. The tables of
   * the lanes repeat after `period` elements. */
  int32_t period = channels;
  while (period % 64) period += channels;
  done = n - n % period;
  for (int32_t start = 0; start < period; start += 64) {
    int32_t tables[64];
    uint64_t lanes[64];
    const int32_t count = lookup_lanes(first, start, channels, tables, lanes);
    for (int32_t i = start; i < done; i += period) {
      model_bytes v = *(const model_bytes *)(const void *)(x + i);
      const uint64_t negative = __builtin_ia32_cvtb2mask512(v);
      for (int32_t t = 0; t < count; ++t) {
        const model_bytes *part = (const model_bytes *)(const void *)(table + tables[t] - 128);
        v = look_up_in(v, part[0], part[1], lanes[t] & negative);
        v = look_up_in(v, part[2], part[3], lanes[t] & ~negative);
      }
      *(model_bytes *)(void *)(y + i) = v;
    }
  }
#endif
  for (int32_t i = done, c = 0; i < n; ++i) {
    y[i] = table[first[c] + x[i]];
    c = c + 1 < channels ? c + 1 : 0;
  }
}
