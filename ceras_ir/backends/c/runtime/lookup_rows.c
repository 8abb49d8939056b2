/* y[i] = table[first[i % channels] + clamp(x[i], -half, half - 1)], of n elements. */
MODEL_STATIC void lookup_rows_@NAME@(@Y@ *restrict y, const @X@ *restrict x,
                              const @Y@ *restrict table, const int32_t *restrict first,
                              int32_t half, int32_t channels, int32_t n)
{
  int32_t i = 0, c = 0;
#if MODEL_LANES == 16
  /* 16 at a time: the processor gathers aligned words that contain the entries. */
  enum { SIZE = sizeof(@Y@), LAST = 4 / SIZE - 1 };
  typedef @X@ stored __attribute__((vector_size(16 * sizeof(@X@)), aligned(1), may_alias));
  typedef @Y@ made __attribute__((vector_size(16 * SIZE), aligned(1), may_alias));
  typedef int32_t words __attribute__((vector_size(64)));
  typedef int32_t loaded __attribute__((vector_size(64), aligned(1), may_alias));
  const words low = (words){0} - half, high = (words){0} + (half - 1);
  for (; channels % 16 == 0 && i + 16 <= n; i += 16) {
    const words wide = __builtin_convertvector(*(const stored *)(const void *)(x + i), words);
    const words under = wide < low, over = wide > high;
    const words clamped = (wide & ~under & ~over) | (low & under) | (high & over);
    const words at = clamped + *(const loaded *)(const void *)(first + c);
    const words entries =
        (words)__builtin_ia32_gathersiv16si((words){0}, table, at & ~LAST, -1, SIZE);
    *(made *)(void *)(y + i) = __builtin_convertvector(entries >> (at & LAST) * 8 * SIZE, made);
    c = c + 16 < channels ? c + 16 : 0;
  }
#endif
  for (; i < n; ++i) {
    const int32_t at = x[i] < -half ? -half : x[i] >= half ? half - 1 : x[i];
    y[i] = table[first[c] + at];
    c = c + 1 < channels ? c + 1 : 0;
  }
}
