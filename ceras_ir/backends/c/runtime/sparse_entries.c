/* Decodes the stored weights of the next filter: returns their number, and stores the place of each
 * input in the planes, and the weight. Distances have `width` bits, counts have `bits` bits. */
struct sparse_source_@NAME@ {
  const uint8_t *counts;
  const uint8_t *places;
  const @VALUE@ *values;
  uint32_t at_count;
  uint32_t at_place;
  uint32_t at_value;
};

/* Extracts `width` bits, at most 25, from bit `at`; it also loads the three bytes after them. */
static inline uint32_t sparse_bits_@NAME@(const uint8_t *from, uint32_t at, uint32_t width)
{
  const uint8_t *const b = &from[at >> 3];
  const uint32_t word =
      b[0] | ((uint32_t)b[1] << 8) | ((uint32_t)b[2] << 16) | ((uint32_t)b[3] << 24);
  return (word >> (at & 7)) & ((1u << width) - 1);
}

static int32_t sparse_entries_@NAME@(struct sparse_entry_@ENTRY@ *restrict to,
                                   struct sparse_source_@NAME@ *restrict from, uint32_t bits,
                                   int32_t equal, uint32_t width, int32_t unit,
                                   const int32_t *restrict taps, int32_t channels, int32_t pitch)
{
  int32_t count = equal;
  if (bits) {
    count = (int32_t)sparse_bits_@NAME@(from->counts, from->at_count, bits);
    from->at_count += bits;
  }
  int32_t tap = 0;
  int32_t channel = 0;
  for (int32_t i = 0; i < count; ++i) {
    channel += (int32_t)sparse_bits_@NAME@(from->places, from->at_place, width) * unit;
    from->at_place += width;
    while (channel >= channels) {
      channel -= channels;
      ++tap;
    }
    for (int32_t u = 0; u < unit; ++u) {
      to->at = taps[tap] + ((channel + u) * pitch);
      to->w = @READ@;
      ++to;@NEXT@
    }
  }
  return count * unit;
}
