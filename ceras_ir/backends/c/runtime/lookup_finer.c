#include "channel_tables.c"
#include "lookup_indices.c"
/* The function `lookup_rows_int16_t_int8_t` with vector instructions, for few tables of few entries.
 * The elements are in the order of memory. */
MODEL_STATIC void lookup_finer(int8_t *restrict y, const int16_t *restrict x,
                               const int8_t *restrict table, const int32_t *restrict first,
                               int32_t half, int32_t channels, int32_t n)
{
  int32_t done = 0;
#if MODEL_LOOKUP
  /* An instruction looks up in 128 entries by the low seven bits of an index. The upper bits select
   * the lanes that use the result. */
  const __m512i low = _mm512_set1_epi16((short)-half), high = _mm512_set1_epi16((short)(half - 1));
  int32_t period = channels;
  while (period % 64) period += channels;
  done = n - n % period;
  for (int32_t start = 0; start < period; start += 64) {
    int32_t entries[64], tables[64];
    uint64_t lanes[64];
    channel_entries(entries, first, start, channels);
    const int32_t count = collect_tables(entries, 64, tables, lanes);
    for (int32_t i = start; i < done; i += period) {
      const __m512i first_words = _mm512_loadu_si512((const void *)(x + i));
      const __m512i last_words = _mm512_loadu_si512((const void *)(x + i + 32));
      model_bytes bits, upper;
      split_indices(&bits, &upper, first_words, last_words, low, high);
      for (int32_t t = 0; t < count; ++t)
        bits = look_up_parts(bits, upper, table + tables[t] - half, half / 64, lanes[t]);
      *(model_bytes *)(void *)(y + i) = bits;
    }
  }
#endif
  lookup_rows_int16_t_int8_t(y + done, x + done, table, first, half, channels, n - done);
}
