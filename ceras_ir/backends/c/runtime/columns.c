/* Copies the input of a row of windows by columns, so that each window is contiguous: `rows` pixels
 * below each other from row `first`, `dilation` apart, for each of `columns` columns from column
 * -`left`. */
MODEL_COPY void columns_@NAME@(@ROW@ *restrict to, const @IN@ *restrict x, int32_t rows,
                                 int32_t first, int32_t dilation, int32_t left, int32_t columns,
                                 int32_t height, int32_t width, int32_t channels, @ROW@ border)
{
  const int32_t step = rows * channels;
  const int32_t before = (left < columns) ? left : columns;
  const int32_t last = ((left + width) < columns) ? (left + width) : columns;
  for (int32_t k = 0; k < rows; ++k) {
    const int32_t y = first + (k * dilation);
    const int32_t is_inside = (y >= 0) && (y < height);
    const int32_t begin = is_inside ? before : columns;
    const int32_t end = is_inside ? last : columns;
    @ROW@ *restrict at = &to[k * channels];
    int32_t j = 0;
    for (; j < begin; ++j) {
      for (int32_t c = 0; c < channels; ++c) {
        at[c] = border;
      }
      at += step;
    }
    const @IN@ *restrict from = &x[is_inside ? (y * width * channels) : 0];
    for (; j < end; ++j) {
      for (int32_t c = 0; c < channels; ++c) {
        at[c] = (@ROW@)(from[c]@SHIFT@);
      }
      at += step;
      from += channels;
    }
    for (; j < columns; ++j) {
      for (int32_t c = 0; c < channels; ++c) {
        at[c] = border;
      }
      at += step;
    }
  }
}
