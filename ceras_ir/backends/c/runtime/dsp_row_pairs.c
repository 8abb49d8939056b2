#include "dsp.c"
#include "dsp_pairs.c"
/* to[i][c] = rows y and y + 1 of a map at column i - left as a pair of 16-bit numbers, for
 * `columns` columns and @CHANNELS@ channels of the map, with border outside of the map. */
static void dsp_row_pairs_@NAME@(uint32_t *restrict to, const int8_t *restrict x, int32_t y,
                                 int32_t height, int32_t width, int32_t pixel, int32_t left,
                                 int32_t columns, int32_t border)
{
  int8_t none[@CHANNELS@];
  memset(none, border, sizeof none);
  const int32_t has_upper = y >= 0 && y < height, has_lower = y >= -1 && y < height - 1;
  const int8_t *upper = has_upper ? x + y * width * pixel : none;
  const int8_t *lower = has_lower ? x + (y + 1) * width * pixel : none;
  const int32_t inside = columns - left < width ? columns - left : width;
  const uint32_t outside = (uint32_t)(border & 0xffff) * 0x10001u;
  for (int32_t i = 0; i < left * @CHANNELS@; ++i) *to++ = outside;
  for (int32_t i = 0; i < inside; ++i, to += @CHANNELS@) {
    for (int32_t c = 0; c < @CHANNELS@; c += 4) {
      const uint32_t u = dsp_read(upper + c), l = dsp_read(lower + c);
      const uint32_t u02 = dsp_even(u), u13 = dsp_odd(u), l02 = dsp_even(l), l13 = dsp_odd(l);
      to[c] = dsp_low(u02, l02), to[c + 1] = dsp_low(u13, l13);
      to[c + 2] = dsp_high(u02, l02), to[c + 3] = dsp_high(u13, l13);
    }
    if (has_upper) upper += pixel;
    if (has_lower) lower += pixel;
  }
  for (int32_t i = (columns - left - inside) * @CHANNELS@; i > 0; --i) *to++ = outside;
}
