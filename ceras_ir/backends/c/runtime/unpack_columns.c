/* Copies depthwise filters from the order of the vectors, [columns][rows / 4][padded channels][4],
 * to [rows of the window][columns][channels]. */
static void unpack_columns(int8_t *restrict to, const int8_t *restrict from, int32_t rows,
                           int32_t columns, int32_t channels, int32_t padded)
{
  const int32_t words = (rows + 3) / 4;
  for (int32_t k = 0; k < rows; ++k)
    for (int32_t j = 0; j < columns; ++j, to += channels)
      for (int32_t c = 0; c < channels; ++c)
        to[c] = from[((j * words + k / 4) * padded + c) * 4 + k % 4];
}
