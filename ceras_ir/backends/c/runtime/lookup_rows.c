/* y[i][c] = table[first[c] + clamp(x[i][c], -half, half - 1)]; x and y may be one. */
static void lookup_rows_@NAME@(int8_t *y, const @INDEX@ *x, const int8_t *table,
                               const int32_t *first, int32_t half, int32_t channels,
                               int32_t positions)
{
  for (int32_t i = 0; i < positions; ++i, x += channels, y += channels)
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t at = x[c] < -half ? -half : x[c] >= half ? half - 1 : x[c];
      y[c] = table[first[c] + at];
    }
}
