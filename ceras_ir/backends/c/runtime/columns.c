/* The input of one row of windows: `rows` pixels below each other from row `first` on, `dilation`
 * apart, for each of `columns` columns from column -`left` on. So every window is contiguous. */
MODEL_COPY void columns_@NAME@(@ROW@ *restrict to, const @IN@ *restrict x, int32_t rows,
                                 int32_t first, int32_t dilation, int32_t left, int32_t columns,
                                 int32_t height, int32_t width, int32_t channels, @ROW@ border)
{
  for (int32_t k = 0; k < rows; ++k) {
    const int32_t y = first + k * dilation, inside = y >= 0 && y < height;
    for (int32_t j = 0; j < columns; ++j) {
      @ROW@ *restrict at = to + (j * rows + k) * channels;
      if (inside && j >= left && j < left + width) {
        const @IN@ *from = x + (y * width + j - left) * channels;
        for (int32_t c = 0; c < channels; ++c) at[c] = (@ROW@)(from[c]@SHIFT@);
      } else {
        for (int32_t c = 0; c < channels; ++c) at[c] = border;
      }
    }
  }
}
