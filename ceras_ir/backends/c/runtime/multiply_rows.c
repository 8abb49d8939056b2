/* y[r] += rows[r] * weights [k, n] (rows of `pitch`), for `count` rows. Products are added in the
 * order of k. The loop over outputs is innermost, so that it can be vectorized without reordering a
 * sum. */
static void multiply_rows(int32_t count, int32_t n, int32_t k, const float *restrict rows,
                          int32_t row_stride, const float *restrict weights, int32_t pitch,
                          float *restrict y, int32_t y_stride)
{
  const int32_t whole = k - k % 4;
  for (int32_t i = 0; i < whole; i += 4) {
    const float *w0 = weights + i * pitch, *w1 = w0 + pitch, *w2 = w1 + pitch, *w3 = w2 + pitch;
    int32_t r = 0;
    for (; r + 2 <= count; r += 2) {
      const float *x = rows + r * row_stride + i;
      const float a0 = x[0], a1 = x[1], a2 = x[2], a3 = x[3];
      const float *z = x + row_stride;
      const float b0 = z[0], b1 = z[1], b2 = z[2], b3 = z[3];
      float *restrict ya = y + r * y_stride, *restrict yb = ya + y_stride;
      for (int32_t o = 0; o < n; ++o) {
        ya[o] = ya[o] + a0 * w0[o] + a1 * w1[o] + a2 * w2[o] + a3 * w3[o];
        yb[o] = yb[o] + b0 * w0[o] + b1 * w1[o] + b2 * w2[o] + b3 * w3[o];
      }
    }
    if (r < count) {
      const float *x = rows + r * row_stride + i;
      const float a0 = x[0], a1 = x[1], a2 = x[2], a3 = x[3];
      float *restrict ya = y + r * y_stride;
      for (int32_t o = 0; o < n; ++o)
        ya[o] = ya[o] + a0 * w0[o] + a1 * w1[o] + a2 * w2[o] + a3 * w3[o];
    }
  }
  for (int32_t i = whole; i < k; ++i) {
    for (int32_t r = 0; r < count; ++r) {
      const float a = rows[r * row_stride + i];
      const float *restrict w = weights + i * pitch;
      float *restrict ya = y + r * y_stride;
      for (int32_t o = 0; o < n; ++o) ya[o] += a * w[o];
    }
  }
}
