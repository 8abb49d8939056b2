/* Stores rows from `top` and columns from `left` of a map, a word per channel of a position: the
 * input, and 23 bits up the input of the position `down` and `along` from it, with `border` outside
 * of the map. */
static void pair_planes_@NAME@(int32_t *restrict to, const int8_t *restrict x, int32_t top,
                               int32_t left, const int8_t *restrict border)
{
  for (int32_t r = 0; r < @ROWS@; ++r, to += @PITCH@, top += @DOWN@) {
    const int32_t far = top + @FAR_ROWS@;
    for (int32_t c = 0, i = left; c < @COLUMNS@; ++c, i += @ALONG@) {
      const int32_t j = i + @FAR_COLUMNS@;
      const int8_t *const near = top >= 0 && top < @HEIGHT@ && i >= 0 && i < @WIDTH@
                                     ? x + (top * @WIDTH@ + i) * @CHANNELS@ : border;
      const int8_t *const next = far >= 0 && far < @HEIGHT@ && j >= 0 && j < @WIDTH@
                                     ? x + (far * @WIDTH@ + j) * @CHANNELS@ : border;
      int32_t k = 0, *word = to + c;
      for (; k < @CHANNELS@ / 8 * 8; k += 8, word += 8 * @COLUMNS@) {
        MODEL_UNROLLED
        for (int32_t u = 0; u < 8; ++u)
          word[u * @COLUMNS@] = (int32_t)((uint32_t)near[k + u] + ((uint32_t)next[k + u] << 23));
      }
      for (; k < @CHANNELS@; ++k, word += @COLUMNS@)
        *word = (int32_t)((uint32_t)near[k] + ((uint32_t)next[k] << 23));
    }
  }
}
