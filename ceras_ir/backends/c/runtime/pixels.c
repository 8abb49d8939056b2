#if MODEL_AMX
/* Copies `count` pixels from `first` of a strided window of a single pixel, of `columns` columns,
 * @WHAT@. */
static void pixels_@NAME@(uint8_t *restrict to, const @IN@ *restrict x, int32_t first,
                          int32_t count, int32_t columns, int32_t row, int32_t column,
                          int32_t channels)
{
  int32_t r = first / columns;
  int32_t c = first % columns;
  for (int32_t p = 0; p < count; ++p) {
    const @IN@ *restrict from = &x[(r * row) + (c * column)];
    uint8_t *restrict pixel = &to[p * channels];
    for (int32_t i = 0; i < channels; ++i) {
      pixel[i] = (uint8_t)(from[i]@SHIFT@);
    }
    if (++c == columns) {
      c = 0;
      ++r;
    }
  }
}
#endif
