/* Stores each channel of a map as a plane, from plane `plane`, `pitch` elements apart, with @UNIT@
 * planes interleaved: rows from `top` and columns from `left`, with strides, and `border` outside
 * of the map. */
MODEL_COPY void planes_@NAME@(@TO@ *restrict to, int32_t plane, const @IN@ *restrict x, int32_t rows,
                            int32_t columns, int32_t shared, int32_t pitch, int32_t down, int32_t along,
                            int32_t top, int32_t left, int32_t height, int32_t width,
                            int32_t channels, @TO@ border)
{
  int32_t first = (left < 0) ? ((along - 1 - left) / along) : 0;
  int32_t end = (left < width) ? ((width - left + along - 1) / along) : 0;
  end = (end < columns) ? end : columns;
  first = (first < end) ? first : end;
  const int32_t step = along * channels;
  for (int32_t r = 0; r <= rows; ++r) {
    const int32_t y = top + (r * down);
    const int32_t count = (r < rows) ? columns : shared;
    const int is_inside = (r < rows) && (y >= 0) && (y < height);
    const int32_t start = is_inside ? first : count;
    const int32_t stop = is_inside ? end : count;
    const int32_t pixel = (start < stop) ? ((y * width) + left + (start * along)) : 0;
    const @IN@ *const from = &x[pixel * channels];
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t p = plane + c;
      @TO@ *restrict at = &to[(((p / @UNIT@ * pitch) + (r * columns)) * @UNIT@) + (p % @UNIT@)];
      int32_t i = 0;
      for (; i < start; ++i) {
        *at = border;
        at += @UNIT@;
      }
      const @IN@ *next = &from[c];
      for (; i < stop; ++i) {
        *at = (@TO@)(*next@SHIFT@);
        at += @UNIT@;
        next += step;
      }
      for (; i < count; ++i) {
        *at = border;
        at += @UNIT@;
      }
    }
  }
}
