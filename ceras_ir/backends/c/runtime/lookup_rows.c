#if MODEL_LOOKUP
/* Of 64 elements, their indices' low bytes, and which of the table's parts of 128 they are in. */
MODEL_INLINE model_bytes lookup_parts(const int16_t *x, int32_t half, uint64_t *parts)
{
  typedef int16_t shorts __attribute__((vector_size(64), aligned(1), may_alias));
  const shorts low = (shorts){0} - (int16_t)half, high = (shorts){0} + (int16_t)(half - 1);
  shorts v[2];
  for (int32_t i = 0; i < 2; ++i) {
    const shorts at = *(const shorts *)(const void *)(x + 32 * i);
    const shorts under = (shorts)(at < low), over = (shorts)(at > high);
    v[i] = ((at & ~under & ~over) | (low & under) | (high & over)) - low;
  }
  model_bytes even, odd;
  for (int32_t i = 0; i < 64; ++i) {
    even[i] = (char)(2 * i);
    odd[i] = (char)(2 * i + 1);
  }
  const model_bytes part = look_up_in(odd, (model_bytes)(v[0] + v[0]), (model_bytes)(v[1] + v[1]),
                                      ~(uint64_t)0);
  for (int32_t i = 0; i < half / 64; ++i)
    parts[i] = __builtin_ia32_ucmpb512_mask(part, (model_bytes){0} + (char)i, 0, ~(uint64_t)0);
  return look_up_in(even, (model_bytes)v[0], (model_bytes)v[1], ~(uint64_t)0);
}
#endif

/* y[i] = table[first[i % channels] + clamp(x[i], -half, half - 1)], of elements [i, n). */
MODEL_STATIC void lookup_each(int8_t *restrict y, const int16_t *restrict x,
                              const int8_t *restrict table, const int32_t *restrict first,
                              int32_t half, int32_t channels, int32_t i, int32_t n)
{
  for (int32_t c = i % channels; i < n; ++i) {
    const int32_t at = x[i] < -half ? -half : x[i] >= half ? half - 1 : x[i];
    y[i] = table[first[c] + at];
    c = c + 1 < channels ? c + 1 : 0;
  }
}

/* y[i] = table[first[i % channels] + clamp(x[i], -half, half - 1)], of n elements. */
MODEL_STATIC void lookup_rows(int8_t *y, const int16_t *x, const int8_t *table,
                              const int32_t *first, int32_t half, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* As in `lookup_channels`, in parts of 128 entries: worth it in a few tables of a few parts. */
  int32_t period = channels;
  while (period % 64) period += channels;
  if (half <= 512) done = n - n % period;
  for (int32_t start = 0; start < period && done; start += 64) {
    int32_t tables[64];
    uint64_t lanes[64];
    const int32_t count = lookup_lanes(first, start, channels, tables, lanes);
    if (count > 5) {
      for (int32_t i = start; i < done; i += period)
        lookup_each(y, x, table, first, half, channels, i, i + 64);
      continue;
    }
    for (int32_t i = start; i < done; i += period) {
      uint64_t parts[8];
      model_bytes v = lookup_parts(x + i, half, parts);
      for (int32_t t = 0; t < count; ++t) {
        const model_bytes *part = (const model_bytes *)(const void *)(table + tables[t] - half);
        for (int32_t p = 0; p < half / 64; ++p)
          v = look_up_in(v, part[2 * p], part[2 * p + 1], lanes[t] & parts[p]);
      }
      *(model_bytes *)(void *)(y + i) = v;
    }
  }
#endif
  lookup_each(y, x, table, first, half, channels, done, n);
}
