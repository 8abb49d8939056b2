/* Copies `outputs` filters from the order of tiles, [runs][steps][width][@STEP@], to
 * [kernel_w][runs][channels] each, with zeros up to `length`. */
static void unpack_@NAME@(int8_t *restrict to, int32_t length, const int8_t *restrict from,
                     int32_t outputs, int32_t width, int32_t runs, int32_t kernel_w,
                     int32_t channels)
{
  const int32_t taps = kernel_w * channels;
  (void)memset(to, 0, (uint32_t)(outputs * length));
  for (int32_t run = 0; run < runs; ++run) {
    for (int32_t t = 0; t < taps; t += @UNIT@) {
      int8_t *at = &to[(((t / channels * runs) + run) * channels) + (t % channels)];
      const int8_t *w = &from[(t / @STEP@ * @STEP@ * width) + (t % @STEP@)];
      for (int32_t o = 0; o < outputs; ++o) {
        (void)memcpy(&at[o * length], &w[@STEP@ * o], @UNIT@);
      }
    }
    from += (taps + @STEP@ - 1) / @STEP@ * @STEP@ * width;
  }
}
