/* sums[r][o] = rows[r] . weights[o], exactly, for `count` rows and `n` outputs of `k` products
 * each. Two rows by four outputs share loads, and compilers convert the loops to dot products. */
static void dot_rows_@NAME@(int32_t count, int32_t n, int32_t k, const @ROW@ *restrict rows,
                        const @WEIGHT@ *restrict weights, int32_t *restrict sums)
{
@NEON@  const int32_t whole = n - (n % 4);
  for (int32_t o = 0; o < whole; o += 4) {
    const @WEIGHT@ *w0 = &weights[o * k];
    const @WEIGHT@ *w1 = &w0[k];
    const @WEIGHT@ *w2 = &w1[k];
    const @WEIGHT@ *w3 = &w2[k];
    int32_t r = 0;
    for (; (r + 2) <= count; r += 2) {
      const @ROW@ *x0 = &rows[r * k];
      const @ROW@ *x1 = &x0[k];
      int32_t a0 = 0;
      int32_t a1 = 0;
      int32_t a2 = 0;
      int32_t a3 = 0;
      int32_t b0 = 0;
      int32_t b1 = 0;
      int32_t b2 = 0;
      int32_t b3 = 0;
      for (int32_t i = 0; i < k; ++i) {
        const int32_t a = x0[i];
        const int32_t b = x1[i];
        a0 += a * w0[i]; a1 += a * w1[i]; a2 += a * w2[i]; a3 += a * w3[i];
        b0 += b * w0[i]; b1 += b * w1[i]; b2 += b * w2[i]; b3 += b * w3[i];
      }
      int32_t *s = &sums[(r * n) + o];
      s[0] = a0; s[1] = a1; s[2] = a2; s[3] = a3;
      s += n;
      s[0] = b0; s[1] = b1; s[2] = b2; s[3] = b3;
    }
    if (r < count) {
      const @ROW@ *x0 = &rows[r * k];
      int32_t a0 = 0;
      int32_t a1 = 0;
      int32_t a2 = 0;
      int32_t a3 = 0;
      for (int32_t i = 0; i < k; ++i) {
        const int32_t a = x0[i];
        a0 += a * w0[i]; a1 += a * w1[i]; a2 += a * w2[i]; a3 += a * w3[i];
      }
      int32_t *s = &sums[(r * n) + o];
      s[0] = a0; s[1] = a1; s[2] = a2; s[3] = a3;
    }
  }
  for (int32_t o = whole; o < n; ++o) {
    for (int32_t r = 0; r < count; ++r) {
      const @ROW@ *x = &rows[r * k];
      const @WEIGHT@ *w = &weights[o * k];
      int32_t sum = 0;
      for (int32_t i = 0; i < k; ++i) {
        sum += (int32_t)x[i] * w[i];
      }
      sums[(r * n) + o] = sum;
    }
  }
@END@}
