/* to[p][o] = from[o][p] of 16 positions and a multiple of 16 outputs. */
#if MODEL_LANES == 16
static void turn_sums_@NAME@(const void *restrict from, void *restrict to, int32_t outputs)
{
  typedef @ELEMENT@ lanes __attribute__((vector_size(16 * sizeof(@ELEMENT@))));
  typedef @ELEMENT@ loose __attribute__((vector_size(16 * sizeof(@ELEMENT@)), aligned(1), may_alias));
  const @ELEMENT@ *x = (const @ELEMENT@ *)from;
  @ELEMENT@ *y = (@ELEMENT@ *)to;
#if defined(__clang__)
#define TURN_LOW(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TURN_LOW(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif
  for (int32_t o = 0; o < outputs; o += 16, x += 256, y += 16) {
    lanes a[16], b[16];
    for (int i = 0; i < 16; ++i) a[i] = *(const loose *)(x + 16 * i);
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = TURN_LOW(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] =
          TURN_LOW(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = TURN_LOW(b[i], b[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      a[2 * i + 1] =
          TURN_LOW(b[i], b[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = TURN_LOW(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] =
          TURN_LOW(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = TURN_LOW(b[i], b[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      a[2 * i + 1] =
          TURN_LOW(b[i], b[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 16; ++i) *(loose *)(y + i * outputs) = a[i];
  }
#undef TURN_LOW
}
#endif
