/* @NAME@ of n floats, which may be in place. */
static void all_@NAME@(const float *x, float *y, int32_t n)
{
#if MODEL_F32 == 16
  int32_t i = 0;
  for (; (i + 48) <= n; i += 48) {
    @NAME@_512(&x[i], &y[i], 3, 0xFFFF);
  }
  for (; i < n; i += 16) {
    @NAME@_512(&x[i], &y[i], 1, MASK_F32(n - i));
  }
#elif MODEL_F32 == 8
  int32_t i = 0;
  for (; (i + 16) <= n; i += 16) {
    @NAME@_256(&x[i], &y[i]);
  }
  if (i < n) {
    float rest[16] = {0};
    const size_t size = (size_t)(n - i) * sizeof *x;
    (void)memcpy(rest, &x[i], size);
    @NAME@_256(rest, rest);
    (void)memcpy(&y[i], rest, size);
  }
#else
  MODEL_ALIKE
  for (int32_t i = 0; i < n; ++i) {
    y[i] = @NAME@_f32(x[i]);
  }
#endif
}
