/* Copies `rows` rows of feature maps from row `first`, each as `columns` pixels from column
 * -`left`, @WHAT@, with `border` outside of the map. */
MODEL_COPY void halo_@NAME@(@TO@ *restrict to, const @IN@ *restrict x, int32_t rows,
                            int32_t first, int32_t left, int32_t columns, int32_t height,
                            int32_t width, int32_t channels, @TO@ border)
{
  const int32_t outside = (left < columns) ? left : columns;
  const int32_t inside = ((left + width) < columns) ? width : (columns - outside);
  const int32_t before = outside * channels;
  const int32_t run = inside * channels;
  const int32_t pitch = columns * channels;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t y = first + r;
    int32_t i = 0;
    if ((y >= 0) && (y < height)) {
      const @IN@ *from = &x[y * width * channels];
      for (; i < before; ++i) {
        to[i] = border;
      }
      @TO@ *restrict at = &to[before];
      for (int32_t j = 0; j < run; ++j) {
        at[j] = (@TO@)(from[j]@SHIFT@);
      }
      i = before + run;
    }
    for (; i < pitch; ++i) {
      to[i] = border;
    }
    to += pitch;
  }
}
