/* Subtracts the zero point from stored numbers, in a type that holds the difference. */
static void centre_@NAME@(@ROW@ *restrict to, const @IN@ *restrict from, int32_t size,
                        int32_t zero_point)
{
  for (int32_t i = 0; i < size; ++i) {
    to[i] = (@ROW@)(from[i] - zero_point);
  }
}
