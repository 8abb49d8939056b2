/* The element of result i of n in `extent` elements, times 256. */
static int32_t nearest_place(int32_t i, int32_t extent, int32_t n)
{
  return (int32_t)(((2 * (int64_t)i) + 1) * extent / (2 * n)) * 256;
}
