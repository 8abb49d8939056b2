/* y[i] = table[x[i] + 128]; x and y may be one. */
MODEL_TILE void lookup(int8_t *y, const int8_t *x, const int8_t *table, int32_t n)
{
  int32_t i = 0;
#if MODEL_LANES == 16 && defined(__AVX512VBMI__)
  /* The processor looks 64 bytes up in 128 at once: in both halves, of which bit 7 selects. */
  typedef char bytes __attribute__((vector_size(64), aligned(1), may_alias));
  const bytes *half = (const bytes *)(const void *)table;
  const bytes a = half[0], b = half[1], c = half[2], d = half[3];
  for (; i + 64 <= n; i += 64) {
    const bytes at = *(const bytes *)(const void *)(x + i);
#if defined(__clang__)
    const bytes upper = __builtin_ia32_vpermi2varqi512(c, at, d);
    const bytes lower = __builtin_ia32_vpermi2varqi512(a, at, b);
#else
    const bytes upper = __builtin_ia32_vpermt2varqi512_mask(at, c, d, ~0ull);
    const bytes lower = __builtin_ia32_vpermt2varqi512_mask(at, a, b, ~0ull);
#endif
    const bytes negative = (bytes)(at < (bytes){0});
    *(bytes *)(void *)(y + i) = (lower & negative) | (upper & ~negative);
  }
#endif
  for (; i < n; ++i) y[i] = table[x[i] + 128];
}
