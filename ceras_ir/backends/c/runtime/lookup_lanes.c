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
#else
#define MODEL_LOOKUP 0
#endif
