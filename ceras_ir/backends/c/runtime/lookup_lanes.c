#if MODEL_LANES == 16 && defined(__AVX512VBMI__)
#define MODEL_LOOKUP 1
typedef char model_bytes __attribute__((vector_size(64), aligned(1), may_alias));

/* Replaces these lanes of `at` by the entries of a and b, 64 each, that the low seven bits
 * select. */
MODEL_INLINE model_bytes look_up_in(model_bytes at, model_bytes a, model_bytes b, uint64_t lanes)
{
#if defined(__clang__)
  return __builtin_ia32_selectb_512(lanes, __builtin_ia32_vpermi2varqi512(a, at, b), at);
#else
  return __builtin_ia32_vpermi2varqi512_mask(a, at, b, lanes);
#endif
}

/* Looks up the entries of a table in four parts: the first two in these lanes, the others
 * elsewhere. */
MODEL_INLINE model_bytes look_up(model_bytes at, model_bytes a, model_bytes b, model_bytes c,
                                 model_bytes d, uint64_t lanes)
{
  return look_up_in(look_up_in(at, a, b, lanes), c, d, ~lanes);
}

/* Collects the tables of the channels of 64 elements, and the lanes of each table; returns the
 * number of tables. */
MODEL_STATIC int32_t lookup_lanes(const int32_t *first, int32_t start, int32_t channels,
                                  int32_t *tables, uint64_t *lanes)
{
  int32_t count = 0;
  for (int32_t i = 0; i < 64; ++i) {
    const int32_t at = first[(start + i) % channels];
    int32_t t = 0;
    while (t < count && tables[t] != at) ++t;
    if (t == count) {
      tables[count] = at;
      lanes[count++] = 0;
    }
    lanes[t] |= (uint64_t)1 << i;
  }
  return count;
}
#else
#define MODEL_LOOKUP 0
#endif
