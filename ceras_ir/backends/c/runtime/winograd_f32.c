#include "vectors_f32.c"
/* Winograd's F(2 x 2, 3 x 3): four results of a 3 x 3 window need 16 products instead of 36. Value
 * k of all patches (or channels) is `pitch` floats after value k - 1. */
#if MODEL_F32
/* A row of a patch, a vector of channels: B' = (1 0 -1 0), (0 1 1 0), (0 -1 1 0), (0 1 0 -1). */
#define PATCH_ROW(n) \
  const model_f32v a##n = LOAD_F32(at), b##n = LOAD_F32(at + channels), \
                   c##n = LOAD_F32(at + 2 * channels), d##n = LOAD_F32(at + 3 * channels), \
                   p##n = a##n - c##n, q##n = b##n + c##n, r##n = c##n - b##n, s##n = b##n - d##n
#define PATCH_COLUMN(k, n) \
  STORE_F32(to + k * pitch, n##0 - n##2), STORE_F32(to + (k + 4) * pitch, n##1 + n##2), \
  STORE_F32(to + (k + 8) * pitch, n##2 - n##1), STORE_F32(to + (k + 12) * pitch, n##1 - n##3)

/* Transforms the 4 x 4 patches of a strip, two rows and two columns apart: B' patch B. */
MODEL_TILE void winograd_f32_patches(float *restrict v, int32_t pitch, const float *restrict strip,
                                     int32_t width, int32_t channels, int32_t rows, int32_t columns)
{
  for (int32_t i = 0; i < rows * columns; ++i) {
    const float *patch = strip + (i / columns * width + i % columns) * 2 * channels;
    for (int32_t c = 0; c < channels; c += MODEL_F32) {
      const float *at = patch + c;
      float *to = v + i * channels + c;
      PATCH_ROW(0);
      at += width * channels;
      PATCH_ROW(1);
      at += width * channels;
      PATCH_ROW(2);
      at += width * channels;
      PATCH_ROW(3);
      PATCH_COLUMN(0, p), PATCH_COLUMN(1, q), PATCH_COLUMN(2, r), PATCH_COLUMN(3, s);
    }
  }
}

/* A row of a filter, a vector of outputs: G = (1 0 0), (1 1 1) / 2, (1 -1 1) / 2, (0 0 1). */
#define FILTER_ROW(n) \
  const model_f32v p##n = LOAD_F32(at + 3 * n * tap), s##n = LOAD_F32(at + (3 * n + 2) * tap), \
                   h##n = (p##n + s##n) * 0.5f, m##n = LOAD_F32(at + (3 * n + 1) * tap) * 0.5f, \
                   q##n = h##n + m##n, r##n = h##n - m##n
#define FILTER_COLUMN(k, n) \
  (h = (n##0 + n##2) * 0.5f, m = n##1 * 0.5f, \
   STORE_F32(to + k * pitch, n##0), STORE_F32(to + (k + 4) * pitch, h + m), \
   STORE_F32(to + (k + 8) * pitch, h - m), STORE_F32(to + (k + 12) * pitch, n##2))

/* Transforms the filters of a panel `w` [9 taps][channels][width]: G filter G'. */
MODEL_TILE void winograd_f32_filters(float *restrict u, int32_t pitch, const float *restrict w,
                                     int32_t channels, int32_t width)
{
  const int32_t tap = channels * width;
  for (int32_t i = 0; i < tap; i += MODEL_F32) {
    const float *at = w + i;
    float *to = u + i;
    FILTER_ROW(0);
    FILTER_ROW(1);
    FILTER_ROW(2);
    model_f32v h, m;
    FILTER_COLUMN(0, p), FILTER_COLUMN(1, q), FILTER_COLUMN(2, r), FILTER_COLUMN(3, s);
  }
}

/* The place of the results: a map of `columns` x `outputs` with `rows` remaining rows. */
struct winograd_f32 {
  int32_t rows, columns, outputs;
  float low, high;
};

/* A row of sums, a vector of outputs: A' = (1 1 1 0), (0 1 -1 -1). */
#define SUMS_ROW(n) \
  const model_f32v a##n = LOAD_F32(at + 4 * n * pitch), b##n = LOAD_F32(at + (4 * n + 1) * pitch), \
                   c##n = LOAD_F32(at + (4 * n + 2) * pitch), \
                   d##n = LOAD_F32(at + (4 * n + 3) * pitch), \
                   p##n = a##n + b##n + c##n, q##n = b##n - c##n - d##n
#define RESULT(value, to) \
  do { \
    model_f32v v = (value) + start; \
    if (residual) v += LOAD_F32(residual + (to)); \
    v = AT_LEAST(v, least), v = AT_MOST(v, most); \
    STORE_F32(y + (to), v); \
  } while (0)

/* Stores the results of `count` patches from number `first` of the strip: A' sums A, with bias and
 * optional residual, within bounds, of `width` outputs. */
MODEL_TILE void winograd_f32_results(float *y, const float *residual, const float *sums,
                                     const float *bias, int32_t first, int32_t count,
                                     int32_t width, const struct winograd_f32 *g)
{
  const int32_t pitch = count * width, across = (g->columns + 1) / 2;
  const model_f32v least = ALL_F32(g->low), most = ALL_F32(g->high);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t row = (first + i) / across * 2, column = (first + i) % across * 2;
    const int32_t below = g->columns * g->outputs;
    for (int32_t o = 0; o < width; o += MODEL_F32) {
      const float *at = sums + i * width + o;
      const int32_t to = row * below + column * g->outputs + o;
      const model_f32v start = LOAD_F32(bias + o);
      SUMS_ROW(0);
      SUMS_ROW(1);
      SUMS_ROW(2);
      SUMS_ROW(3);
      const int is_wide = column + 1 < g->columns;
      RESULT(p0 + p1 + p2, to);
      if (is_wide) RESULT(q0 + q1 + q2, to + g->outputs);
      if (row + 1 < g->rows) {
        RESULT(p1 - p2 - p3, to + below);
        if (is_wide) RESULT(q1 - q2 - q3, to + below + g->outputs);
      }
    }
  }
}
#endif
