/* y[i][j] = x[j][i] of words, for i < `rows` and j < `columns`; rows of x are `from` words apart,
 * those of y are `to`. Blocks of 4 by 4 are turned in registers. They follow each other along the
 * operand whose rows are further apart, because such rows share few places of a cache. */
#if MODEL_F32 && !MODEL_RVV
MODEL_TILE void transpose_words(const void *x, int32_t from, void *y, int32_t to, int32_t rows,
                                int32_t columns)
{
  typedef int32_t words __attribute__((vector_size(16)));
  typedef int32_t loose __attribute__((vector_size(16), aligned(4), may_alias));
  typedef int32_t word __attribute__((may_alias));
  enum { BLOCK = 4, STRIP = 64 };
#if defined(__clang__)
#define TURN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TURN(a, b, ...) __builtin_shuffle(a, b, (words){__VA_ARGS__})
#endif
  const word *const source = (const word *)x;
  word *const target = (word *)y;
  const int32_t whole_rows = rows - rows % BLOCK, whole_columns = columns - columns % BLOCK;
  const int32_t along_rows = from > to;
  const int32_t outer = along_rows ? whole_columns : whole_rows;
  const int32_t inner = along_rows ? whole_rows : whole_columns;
  for (int32_t first = 0; first < inner; first += STRIP) {
    const int32_t end = inner - first < STRIP ? inner : first + STRIP;
    for (int32_t a = 0; a < outer; a += BLOCK) {
      for (int32_t b = first; b < end; b += BLOCK) {
        const int32_t i = along_rows ? b : a, j = along_rows ? a : b;
        words in[BLOCK], pairs[BLOCK];
        for (int k = 0; k < BLOCK; ++k)
          in[k] = *(const loose *)(const void *)(source + (j + k) * from + i);
        for (int k = 0; k < 2; ++k) {
          pairs[2 * k] = TURN(in[k], in[k + 2], 0, 4, 1, 5);
          pairs[2 * k + 1] = TURN(in[k], in[k + 2], 2, 6, 3, 7);
        }
        for (int k = 0; k < 2; ++k) {
          word *const at = target + (i + 2 * k) * to + j;
          *(loose *)(void *)at = TURN(pairs[k], pairs[k + 2], 0, 4, 1, 5);
          *(loose *)(void *)(at + to) = TURN(pairs[k], pairs[k + 2], 2, 6, 3, 7);
        }
      }
    }
  }
  for (int32_t i = 0; i < rows; ++i)
    for (int32_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j)
      target[i * to + j] = source[j * from + i];
#undef TURN
}
#endif
