#include "vectors_f32.c"
#include "winograd_f32.c"
/* Winograd's F(4 x 4, 3 x 3) at the points 0, r / 2, -r / 2, r, -r and infinity, r the root of 2: 16
 * results of a 3 x 3 window need 36 products instead of 144. Value k of all patches (or outputs) is
 * `pitch` floats after value k - 1; values are numbered by columns. Vectors have four lanes, or on
 * RISC-V the lanes of two registers, at most FOUR_LANES. */
#if MODEL_RVV
#include <riscv_vector.h>
typedef vfloat32m2_t model_four;
enum { FOUR_LANES = 32 };
#define FOUR_LOOP(i, n) \
  size_t vl; \
  for (int32_t i = 0; \
       i < (n) && (vl = __riscv_vsetvl_e32m2((size_t)((n) - i < 32 ? (n) - i : 32))) > 0; \
       i += (int32_t)vl)
#define FOUR_LOAD(p) __riscv_vle32_v_f32m2(p, vl)
#define FOUR_STORE(p, v) __riscv_vse32_v_f32m2(p, v, vl)
#define FOUR_ADD(a, b) __riscv_vfadd_vv_f32m2(a, b, vl)
#define FOUR_SUB(a, b) __riscv_vfsub_vv_f32m2(a, b, vl)
#define FOUR_MUL(a, f) __riscv_vfmul_vf_f32m2(a, f, vl)
#define FOUR_FMA(sum, a, f) __riscv_vfmacc_vf_f32m2(sum, f, a, vl)
#define FOUR_LEAST(v, low) \
  __riscv_vfmerge_vfm_f32m2(v, low, __riscv_vmflt_vf_f32m2_b16(v, low, vl), vl)
#define FOUR_MOST(v, high) \
  __riscv_vfmerge_vfm_f32m2(v, high, __riscv_vmfgt_vf_f32m2_b16(v, high, vl), vl)
#define FOUR_TABLE(n) float t[(n) * FOUR_LANES]
#define FOUR_KEEP(i, v) FOUR_STORE(t + (i) * FOUR_LANES, v)
#define FOUR_KEPT(i) FOUR_LOAD(t + (i) * FOUR_LANES)
#elif MODEL_NEON
typedef model_f32v model_four;
#define FOUR_LOOP(i, n) for (int32_t i = 0; i < (n); i += 4)
#define FOUR_LOAD(p) LOAD_F32(p)
#define FOUR_STORE(p, v) STORE_F32(p, v)
#define FOUR_ADD(a, b) ((a) + (b))
#define FOUR_SUB(a, b) ((a) - (b))
#define FOUR_MUL(a, f) ((a) * (f))
#define FOUR_FMA(sum, a, f) FMA(sum, a, ALL_F32(f))
#define FOUR_LEAST(v, low) AT_LEAST(v, ALL_F32(low))
#define FOUR_MOST(v, high) AT_MOST(v, ALL_F32(high))
#define FOUR_TABLE(n) model_f32v t[n]
#define FOUR_KEEP(i, v) t[i] = (v)
#define FOUR_KEPT(i) t[i]
#endif
#if MODEL_NEON || MODEL_RVV
#define ROOT_F32 1.41421354f
#define HALF_ROOT_F32 0.707106769f
/* B' of six values. */
#define PATCH_SIX(store, d0, d1, d2, d3, d4, d5) \
  do { \
    const model_four e = FOUR_FMA(d4, d2, -2.0f), f = FOUR_FMA(d4, d2, -0.5f); \
    const model_four g = FOUR_FMA(FOUR_MUL(d3, HALF_ROOT_F32), d1, -ROOT_F32); \
    const model_four h = FOUR_FMA(FOUR_MUL(d3, ROOT_F32), d1, -HALF_ROOT_F32); \
    store(0, FOUR_FMA(FOUR_ADD(d0, d4), d2, -2.5f)); \
    store(1, FOUR_ADD(e, g)); \
    store(2, FOUR_SUB(e, g)); \
    store(3, FOUR_ADD(f, h)); \
    store(4, FOUR_SUB(f, h)); \
    store(5, FOUR_FMA(FOUR_ADD(d1, d5), d3, -2.5f)); \
  } while (0)
#define KEEP_SIX(k, value) FOUR_KEEP(6 * (k) + r, value)
#define STORE_SIX(k, value) FOUR_STORE(to + (k) * pitch, value)

/* Transforms the 6 x 6 patches of a strip, four rows and four columns apart: B' patch B. */
MODEL_TILE void winograd_f32_4_patches(float *restrict v, int32_t pitch,
                                       const float *restrict strip, int32_t width,
                                       int32_t channels, int32_t rows, int32_t columns)
{
  for (int32_t i = 0; i < rows * columns; ++i) {
    const float *patch = strip + (i / columns * width + i % columns) * 4 * channels;
    FOUR_LOOP(c, channels)
    {
      FOUR_TABLE(36);
      const float *at = patch + c;
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < 6; ++r, at += width * channels) {
        const model_four d0 = FOUR_LOAD(at), d1 = FOUR_LOAD(at + channels);
        const model_four d2 = FOUR_LOAD(at + 2 * channels), d3 = FOUR_LOAD(at + 3 * channels);
        const model_four d4 = FOUR_LOAD(at + 4 * channels), d5 = FOUR_LOAD(at + 5 * channels);
        PATCH_SIX(KEEP_SIX, d0, d1, d2, d3, d4, d5);
      }
      float *to = v + i * channels + c;
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < 36; r += 6, to += 6 * pitch) {
        const model_four d0 = FOUR_KEPT(r), d1 = FOUR_KEPT(r + 1), d2 = FOUR_KEPT(r + 2);
        const model_four d3 = FOUR_KEPT(r + 3), d4 = FOUR_KEPT(r + 4), d5 = FOUR_KEPT(r + 5);
        PATCH_SIX(STORE_SIX, d0, d1, d2, d3, d4, d5);
      }
    }
  }
}

/* G of three values. */
#define FILTER_SIX(store, g0, g1, g2) \
  do { \
    const model_four p = FOUR_FMA(FOUR_MUL(g0, -2.0f / 3.0f), g2, -1.0f / 3.0f); \
    const model_four q = FOUR_MUL(g1, -ROOT_F32 / 3.0f); \
    const model_four e = FOUR_FMA(FOUR_MUL(g0, 1.0f / 6.0f), g2, 1.0f / 3.0f); \
    const model_four f = FOUR_MUL(g1, ROOT_F32 / 6.0f); \
    store(0, g0); \
    store(1, FOUR_ADD(p, q)); \
    store(2, FOUR_SUB(p, q)); \
    store(3, FOUR_ADD(e, f)); \
    store(4, FOUR_SUB(e, f)); \
    store(5, g2); \
  } while (0)
#define KEEP_THREE(k, value) FOUR_KEEP(3 * (k) + r, value)

/* Transforms `count` outputs of the filters of a panel `w` [9 taps][channels][width]: G filter G'.
 * The values of a channel are `row` floats apart. */
MODEL_TILE void winograd_f32_4_filters(float *restrict u, int32_t pitch, const float *restrict w,
                                       int32_t channels, int32_t width, int32_t count, int32_t row)
{
  const int32_t tap = channels * width;
  for (int32_t c = 0; c < channels; ++c) {
    FOUR_LOOP(o, count)
    {
      FOUR_TABLE(18);
      const float *at = w + c * width + o;
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < 3; ++r, at += 3 * tap) {
        const model_four g0 = FOUR_LOAD(at), g1 = FOUR_LOAD(at + tap);
        const model_four g2 = FOUR_LOAD(at + 2 * tap);
        FILTER_SIX(KEEP_THREE, g0, g1, g2);
      }
      float *to = u + c * row + o;
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < 18; r += 3, to += 6 * pitch) {
        const model_four g0 = FOUR_KEPT(r), g1 = FOUR_KEPT(r + 1), g2 = FOUR_KEPT(r + 2);
        FILTER_SIX(STORE_SIX, g0, g1, g2);
      }
    }
  }
}

/* A' of six sums. */
#define SUMS_SIX(store, m0, m1, m2, m3, m4, m5) \
  do { \
    const model_four p = FOUR_ADD(m1, m2), q = FOUR_SUB(m1, m2); \
    const model_four e = FOUR_ADD(m3, m4), f = FOUR_SUB(m3, m4); \
    store(0, FOUR_ADD(FOUR_ADD(m0, p), e)); \
    store(1, FOUR_FMA(FOUR_MUL(q, HALF_ROOT_F32), f, ROOT_F32)); \
    store(2, FOUR_FMA(FOUR_MUL(p, 0.5f), e, 2.0f)); \
    store(3, FOUR_FMA(FOUR_FMA(m5, q, 0.5f * HALF_ROOT_F32), f, 2.0f * ROOT_F32)); \
  } while (0)
#define RESULT_SIX(k, value) \
  if ((k) < wide) { \
    model_four each = FOUR_ADD(value, start); \
    if (residual) each = FOUR_ADD(each, FOUR_LOAD(residual + to + (k) * g->outputs)); \
    if (is_clamped) each = FOUR_LEAST(each, g->low), each = FOUR_MOST(each, g->high); \
    FOUR_STORE(y + to + (k) * g->outputs, each); \
  }

/* Stores the results of `count` patches from number `first` of the strip: A' sums A, with bias and
 * optional residual, within bounds, of `width` outputs. */
MODEL_TILE void winograd_f32_4_results(float *y, const float *residual, const float *sums,
                                       const float *bias, int32_t first, int32_t count,
                                       int32_t width, const struct winograd_f32 *g)
{
  const int32_t pitch = count * width, across = (g->columns + 3) / 4;
  const int is_clamped = g->low > -INFINITY || g->high < INFINITY;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t row = (first + i) / across * 4, column = (first + i) % across * 4;
    const int32_t below = g->columns * g->outputs, wide = g->columns - column;
    const int32_t high = (g->rows - row < 4) ? g->rows - row : 4;
    FOUR_LOOP(o, width)
    {
      FOUR_TABLE(24);
      const float *at = sums + i * width + o;
      const model_four start = FOUR_LOAD(bias + o);
      MODEL_IN_REGISTERS
      for (int32_t r = 0; r < 6; ++r, at += 6 * pitch) {
        const model_four m0 = FOUR_LOAD(at), m1 = FOUR_LOAD(at + pitch);
        const model_four m2 = FOUR_LOAD(at + 2 * pitch), m3 = FOUR_LOAD(at + 3 * pitch);
        const model_four m4 = FOUR_LOAD(at + 4 * pitch), m5 = FOUR_LOAD(at + 5 * pitch);
        SUMS_SIX(KEEP_SIX, m0, m1, m2, m3, m4, m5);
      }
      int32_t to = row * below + column * g->outputs + o;
      for (int32_t r = 0; r < 6 * high; r += 6, to += below) {
        const model_four m0 = FOUR_KEPT(r), m1 = FOUR_KEPT(r + 1), m2 = FOUR_KEPT(r + 2);
        const model_four m3 = FOUR_KEPT(r + 3), m4 = FOUR_KEPT(r + 4), m5 = FOUR_KEPT(r + 5);
        SUMS_SIX(RESULT_SIX, m0, m1, m2, m3, m4, m5);
      }
    }
  }
}
#endif
