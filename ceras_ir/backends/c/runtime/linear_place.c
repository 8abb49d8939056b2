/* The position of result i of n in `extent` elements, in units of 1/256. */
static int32_t linear_place(int32_t i, int32_t extent, int32_t n)
{
  const int32_t place = (int32_t)(((2 * (int64_t)i) + 1) * extent * 128 / n) - 128;
  const int32_t last = (extent - 1) * 256;
  return (place < 0) ? 0 : (place > last) ? last : place;
}
