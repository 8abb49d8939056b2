#include "lookup_lanes.c"
/* y[i] = low[at] + 256 * high[at], at = first[i % channels] + x[i], of n elements. */
MODEL_STATIC void lookup_halves(int16_t *restrict y, const int8_t *restrict x,
                                const uint8_t *restrict low, const int8_t *restrict high,
                                const int32_t *restrict first, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* Two lookups of bytes with the same lanes. */
  typedef uint8_t lows __attribute__((vector_size(32)));
  typedef int8_t highs __attribute__((vector_size(32)));
  typedef int16_t shorts __attribute__((vector_size(64)));
  typedef int16_t stored __attribute__((vector_size(64), aligned(1), may_alias));
  int32_t period = channels;
  while (period % 64) period += channels;
  done = n - n % period;
  for (int32_t start = 0; start < period; start += 64) {
    int32_t tables[64];
    uint64_t lanes[64];
    const int32_t count = lookup_lanes(first, start, channels, tables, lanes);
    for (int32_t i = start; i < done; i += period) {
      const model_bytes at = *(const model_bytes *)(const void *)(x + i);
      const uint64_t negative = __builtin_ia32_cvtb2mask512(at);
      union {
        model_bytes bytes;
        lows low[2];
        highs high[2];
      } a = {at}, b = {at};
      for (int32_t t = 0; t < count; ++t) {
        const model_bytes *l = (const model_bytes *)(const void *)(low + tables[t] - 128);
        const model_bytes *h = (const model_bytes *)(const void *)(high + tables[t] - 128);
        a.bytes = look_up_in(a.bytes, l[0], l[1], lanes[t] & negative);
        a.bytes = look_up_in(a.bytes, l[2], l[3], lanes[t] & ~negative);
        b.bytes = look_up_in(b.bytes, h[0], h[1], lanes[t] & negative);
        b.bytes = look_up_in(b.bytes, h[2], h[3], lanes[t] & ~negative);
      }
      for (int32_t half = 0; half < 2; ++half)
        *(stored *)(void *)(y + i + 32 * half) =
            __builtin_convertvector(a.low[half], shorts) +
            (__builtin_convertvector(b.high[half], shorts) << 8);
    }
  }
#endif
  for (int32_t i = done, c = 0; i < n; ++i) {
    const int32_t at = first[c] + x[i];
    y[i] = (int16_t)(low[at] + high[at] * 256);
    c = c + 1 < channels ? c + 1 : 0;
  }
}
