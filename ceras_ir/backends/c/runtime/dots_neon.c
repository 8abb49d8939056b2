/* sums[r][o] = x[r] . weights[o] for rows of `k` bytes, with rows of x `stride` apart, 16 bytes at
 * a time: with the matrix instructions of Armv8.6 (MODEL_NEON 3), with dot products (2), or with
 * long products (1). Groups of rows and outputs that do not divide evenly overlap. */
#if MODEL_NEON
#include <arm_neon.h>

#if MODEL_NEON >= 2
#define NEON_DOT(sum, x, w) vdotq_s32(sum, x, w)
#else
#define NEON_DOT(sum, x, w)                                                                    \
  vpadalq_s16(vpadalq_s16(sum, vmull_s8(vget_low_s8(x), vget_low_s8(w))), vmull_high_s8(x, w))
#endif

/* Stores four outputs of a row; each sum has four parts. */
#define NEON_STORE(to, a, b, c, d) vst1q_s32(to, vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)))

static inline void neon_1x4(const int8_t *x, const int8_t *w, int32_t k, int32_t *sums)
{
  int32x4_t a0 = vdupq_n_s32(0), a1 = a0, a2 = a0, a3 = a0;
  for (int32_t i = 0; i < k; i += 16) {
    const int8_t *at = w + i;
    const int8x16_t v = vld1q_s8(x + i);
    a0 = NEON_DOT(a0, v, vld1q_s8(at));
    a1 = NEON_DOT(a1, v, vld1q_s8(at + k));
    a2 = NEON_DOT(a2, v, vld1q_s8(at + 2 * k));
    a3 = NEON_DOT(a3, v, vld1q_s8(at + 3 * k));
  }
  NEON_STORE(sums, a0, a1, a2, a3);
}

#define NEON_ROW(s, p)                                                                         \
  v = vld1q_s8(x + p * stride + i);                                                         \
  s##0 = NEON_DOT(s##0, v, w0), s##1 = NEON_DOT(s##1, v, w1);                                  \
  s##2 = NEON_DOT(s##2, v, w2), s##3 = NEON_DOT(s##3, v, w3)

static inline void neon_4x4(const int8_t *x, const int8_t *w, int32_t k, int32_t stride, int32_t *sums,
                            int32_t n)
{
  int32x4_t a0 = vdupq_n_s32(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  int32x4_t c0 = a0, c1 = a0, c2 = a0, c3 = a0, d0 = a0, d1 = a0, d2 = a0, d3 = a0;
  for (int32_t i = 0; i < k; i += 16) {
    const int8_t *at = w + i;
    const int8x16_t w0 = vld1q_s8(at), w1 = vld1q_s8(at + k);
    const int8x16_t w2 = vld1q_s8(at + 2 * k), w3 = vld1q_s8(at + 3 * k);
    int8x16_t v;
    NEON_ROW(a, 0);
    NEON_ROW(b, 1);
    NEON_ROW(c, 2);
    NEON_ROW(d, 3);
  }
  NEON_STORE(sums, a0, a1, a2, a3);
  NEON_STORE(sums + n, b0, b1, b2, b3);
  NEON_STORE(sums + 2 * n, c0, c1, c2, c3);
  NEON_STORE(sums + 3 * n, d0, d1, d2, d3);
}

#if MODEL_NEON >= 3
/* Combine the low halves, or the high halves, of two rows of 16 bytes. */
static inline int8x16_t neon_low(int8x16_t a, int8x16_t b)
{
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
static inline int8x16_t neon_high(int8x16_t a, int8x16_t b)
{
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
#define NEON_WEIGHTS(j)                                                                        \
  const int8x16_t u##j = vld1q_s8(at + 2 * j * k), v##j = vld1q_s8(at + (2 * j + 1) * k);      \
  const int8x16_t l##j = neon_low(u##j, v##j), h##j = neon_high(u##j, v##j)
#define NEON_PAIR(s, p)                                                                        \
  p0 = vld1q_s8(x + 2 * p * stride + i), p1 = vld1q_s8(x + (2 * p + 1) * stride + i);                    \
  low = neon_low(p0, p1), high = neon_high(p0, p1);                                            \
  s##0 = vmmlaq_s32(vmmlaq_s32(s##0, low, l0), high, h0);                                      \
  s##1 = vmmlaq_s32(vmmlaq_s32(s##1, low, l1), high, h1);                                      \
  s##2 = vmmlaq_s32(vmmlaq_s32(s##2, low, l2), high, h2);                                      \
  s##3 = vmmlaq_s32(vmmlaq_s32(s##3, low, l3), high, h3)
#define NEON_BLOCK(s, row, at, i, j)                                                           \
  vst1q_s32(sums + (row) * n + at, vcombine_s32(vget_low_s32(s##i), vget_low_s32(s##j)));      \
  vst1q_s32(sums + (row + 1) * n + at, vcombine_s32(vget_high_s32(s##i), vget_high_s32(s##j)))
#define NEON_BLOCKS(s, row)                                                                    \
  NEON_BLOCK(s, row, 0, 0, 1);                                                                 \
  NEON_BLOCK(s, row, 4, 2, 3)

/* Products of 2x8 by 8x2 numbers. */
static inline void neon_8x8(const int8_t *x, const int8_t *w, int32_t k, int32_t stride, int32_t *sums,
                            int32_t n)
{
  int32x4_t a0 = vdupq_n_s32(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  int32x4_t c0 = a0, c1 = a0, c2 = a0, c3 = a0, d0 = a0, d1 = a0, d2 = a0, d3 = a0;
  for (int32_t i = 0; i < k; i += 16) {
    const int8_t *at = w + i;
    NEON_WEIGHTS(0);
    NEON_WEIGHTS(1);
    NEON_WEIGHTS(2);
    NEON_WEIGHTS(3);
    int8x16_t p0, p1, low, high;
    NEON_PAIR(a, 0);
    NEON_PAIR(b, 1);
    NEON_PAIR(c, 2);
    NEON_PAIR(d, 3);
  }
  NEON_BLOCKS(a, 0);
  NEON_BLOCKS(b, 2);
  NEON_BLOCKS(c, 4);
  NEON_BLOCKS(d, 6);
}
#endif

static void dots_neon(int32_t count, int32_t stride, const int8_t *restrict x, int32_t n, int32_t k,
                      const int8_t *restrict weights, int32_t *restrict sums)
{
  if (n < 4 || k % 16) {
    for (int32_t r = 0; r < count; ++r) {
      for (int32_t o = 0; o < n; ++o) {
        int32_t sum = 0;
        for (int32_t i = 0; i < k; ++i) sum += x[r * stride + i] * weights[o * k + i];
        sums[r * n + o] = sum;
      }
    }
    return;
  }
#if MODEL_NEON >= 3
  if (count >= 8 && n >= 8) {
    for (int32_t i = 0; i < n; i += 8) {
      const int32_t o = i < n - 8 ? i : n - 8;
      for (int32_t j = 0; j < count; j += 8) {
        const int32_t r = j < count - 8 ? j : count - 8;
        neon_8x8(x + r * stride, weights + o * k, k, stride, sums + r * n + o, n);
      }
    }
    return;
  }
#endif
  for (int32_t i = 0; i < n; i += 4) {
    const int32_t o = i < n - 4 ? i : n - 4;
    if (count >= 4) {
      for (int32_t j = 0; j < count; j += 4) {
        const int32_t r = j < count - 4 ? j : count - 4;
        neon_4x4(x + r * stride, weights + o * k, k, stride, sums + r * n + o, n);
      }
    } else {
      for (int32_t r = 0; r < count; ++r) {
        neon_1x4(x + r * stride, weights + o * k, k, sums + r * n + o);
      }
    }
  }
}
#endif
