/* Copies `k` elements to a row of `length`, with zeros after the last. */
static void widen_@NAME@(@ROW@ *restrict row, int32_t length, const @IN@ *restrict x, int32_t k)
{
  for (int32_t i = 0; i < k; ++i) {
    row[i] = (@ROW@)(x[i]@SHIFT@);
  }
  for (int32_t i = k; i < length; ++i) {
    row[i] = 0;
  }
}
