/* sums[o] += x . row o of w, in the order of elements, for n rows of k elements at a distance of
 * `pitch`. Four rows share loads. */
static void part_rows_@NAME@(@SUM@ *restrict sums, const @ROW@ *restrict x,
                        const @WEIGHT@ *restrict w, int32_t n, int32_t k, int32_t pitch)
{
  int32_t o = 0;
  for (; (o + 4) <= n; o += 4) {
    const @WEIGHT@ *w0 = w + (size_t)o * (size_t)pitch, *w1 = w0 + pitch, *w2 = w1 + pitch;
    const @WEIGHT@ *w3 = w2 + pitch;
    @SUM@ a = sums[o], b = sums[o + 1], c = sums[o + 2], d = sums[o + 3];
    for (int32_t i = 0; i < k; ++i) {
      const @SUM@ v = x[i];
      a += v * w0[i]; b += v * w1[i]; c += v * w2[i]; d += v * w3[i];
    }
    sums[o] = a; sums[o + 1] = b; sums[o + 2] = c; sums[o + 3] = d;
  }
  for (; o < n; ++o) {
    const @WEIGHT@ *row = w + (size_t)o * (size_t)pitch;
    @SUM@ sum = sums[o];
    for (int32_t i = 0; i < k; ++i) {
      sum += (@SUM@)x[i] * row[i];
    }
    sums[o] = sum;
  }
}
