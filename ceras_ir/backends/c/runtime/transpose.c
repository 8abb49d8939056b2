/* y[i][j] = x[j][i] of @NAME@, for i < `rows` and j < `columns`, at least @BLOCK@. Rows of x are
 * `from` apart, rows of y are `to` apart. Blocks of @BLOCK@ by @BLOCK@ are transposed in registers;
 * the last blocks begin earlier, so that they are complete. Blocks follow each other along the
 * operand with the larger distance of rows, because such rows share few sets of a cache. */
#if MODEL_F32 && !MODEL_RVV
MODEL_TILE void transpose_@NAME@(const void *x, int32_t from, void *y, int32_t to, int32_t rows,
                                int32_t columns)
{
  typedef @ELEMENT@ lanes __attribute__((vector_size(16)));
  typedef @ELEMENT@ loose __attribute__((vector_size(16), aligned(sizeof(@ELEMENT@)), may_alias));
  typedef @ELEMENT@ element __attribute__((may_alias));
  enum { BLOCK = @BLOCK@, STRIP = 64 };
#if defined(__clang__)
#define TURN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TURN(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif
  const int32_t along_rows = from > to;
  const int32_t outer = along_rows ? columns : rows, inner = along_rows ? rows : columns;
  for (int32_t first = 0; first < inner; first += STRIP) {
    const int32_t end = inner - first < STRIP ? inner : first + STRIP;
    for (int32_t p = 0; p < outer; p += BLOCK) {
      const int32_t a = p < outer - BLOCK ? p : outer - BLOCK;
      for (int32_t q = first; q < end; q += BLOCK) {
        const int32_t b = q < inner - BLOCK ? q : inner - BLOCK;
        const int32_t i = along_rows ? b : a, j = along_rows ? a : b;
        const element *const source = (const element *)x + j * from + i;
        element *const target = (element *)y + i * to + j;
        lanes v[BLOCK], turned[BLOCK];
        for (int k = 0; k < BLOCK; ++k) v[k] = *(const loose *)(const void *)(source + k * from);
        /* In each round, rows of both halves are interleaved by elements. */
        for (int distance = 1; distance < BLOCK; distance *= 2) {
          for (int k = 0; k < BLOCK / 2; ++k) {
            turned[2 * k] = TURN(v[k], v[k + BLOCK / 2], @LOWER@);
            turned[2 * k + 1] = TURN(v[k], v[k + BLOCK / 2], @UPPER@);
          }
          for (int k = 0; k < BLOCK; ++k) v[k] = turned[k];
        }
        for (int k = 0; k < BLOCK; ++k) *(loose *)(void *)(target + k * to) = v[k];
      }
    }
  }
#undef TURN
}
#endif
