#include "lookup_lanes.c"
#if MODEL_LOOKUP
#include <immintrin.h>
/* Copies the index of the entry for input 0 of each of 64 elements; the channels repeat. */
MODEL_INLINE void channel_entries(int32_t *entries, const int32_t *first, int32_t start,
                                  int32_t channels)
{
  for (int32_t i = 0, c = start % channels; i < 64; c = 0) {
    const int32_t run = channels - c < 64 - i ? channels - c : 64 - i;
    for (int32_t k = 0; k < run; ++k) entries[i + k] = first[c + k];
    i += run;
  }
}

/* Collects up to `most` different indices of `channel_entries`, and the lanes of each. Returns their
 * number, or most + 1 if there are more. */
MODEL_INLINE int32_t collect_tables(const int32_t *entries, int32_t most, int32_t *tables,
                                    uint64_t *lanes)
{
  int32_t count = 0;
  for (uint64_t left = ~(uint64_t)0; left != 0 && count <= most; ++count) {
    const int32_t table = entries[__builtin_ctzll(left)];
    uint64_t equal = 0;
    MODEL_IN_REGISTERS
    for (int32_t i = 0; i < 64; i += 16) {
      const __m512i indices = _mm512_loadu_si512((const void *)(entries + i));
      equal |= (uint64_t)_mm512_cmpeq_epi32_mask(indices, _mm512_set1_epi32(table)) << i;
    }
    if (count < most) tables[count] = table, lanes[count] = equal;
    left &= ~equal;
  }
  return count;
}
#endif
