/* to[p][o] = from[o][p] ^ flip of 16 by 16 words, with given distances between rows. `order` first
 * permutes the bytes of a row within each 16, then as pairs. */
#if MODEL_LANES == 16
static void turn_words(const void *restrict from, int32_t from_row, void *restrict to,
                       int32_t to_row, int32_t flip, const uint8_t *order)
{
  typedef int32_t lanes __attribute__((vector_size(64)));
  typedef int32_t loose __attribute__((vector_size(64), aligned(1), may_alias));
  const unsigned char *x = (const unsigned char *)from;
  unsigned char *y = (unsigned char *)to;
#if defined(__clang__)
#define TURN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TURN(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif
#define TURN_LOW(a, b) TURN(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TURN_HIGH(a, b) TURN(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
  lanes a[16], b[16];
  for (int i = 0; i < 16; ++i, x += 4 * (size_t)from_row)
    a[i] = *(const loose *)(const void *)x ^ flip;
  if (order) {
    const lanes bytes = *(const loose *)(const void *)order;
    const lanes pairs = *(const loose *)(const void *)(order + 64);
    for (int i = 0; i < 16; ++i) {
      __asm__("vpshufb %1, %0, %0" : "+v"(a[i]) : "v"(bytes));
      __asm__("vpermw %0, %1, %0" : "+v"(a[i]) : "v"(pairs));
    }
  }
  for (int i = 0; i < 8; ++i)
    b[2 * i] = TURN_LOW(a[i], a[i + 8]), b[2 * i + 1] = TURN_HIGH(a[i], a[i + 8]);
  for (int i = 0; i < 8; ++i)
    a[2 * i] = TURN_LOW(b[i], b[i + 8]), a[2 * i + 1] = TURN_HIGH(b[i], b[i + 8]);
  for (int i = 0; i < 8; ++i)
    b[2 * i] = TURN_LOW(a[i], a[i + 8]), b[2 * i + 1] = TURN_HIGH(a[i], a[i + 8]);
  for (int i = 0; i < 8; ++i)
    a[2 * i] = TURN_LOW(b[i], b[i + 8]), a[2 * i + 1] = TURN_HIGH(b[i], b[i + 8]);
  for (int i = 0; i < 16; ++i, y += 4 * (size_t)to_row) *(loose *)(void *)y = a[i];
#undef TURN_LOW
#undef TURN_HIGH
#undef TURN
}
#endif
