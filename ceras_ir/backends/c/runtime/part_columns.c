/* sums[o] += x[i] * w[i][o], in the order of i, for n columns of k rows at a distance of `pitch`.
 * Four rows share loads and stores of a sum. */
static void part_columns_@NAME@(@SUM@ *restrict sums, const @ROW@ *restrict x,
                           const @WEIGHT@ *restrict w, int32_t n, int32_t k, int32_t pitch)
{
  int32_t i = 0;
  for (; (i + 4) <= k; i += 4) {
    const @WEIGHT@ *w1 = w + pitch, *w2 = w1 + pitch, *w3 = w2 + pitch;
    const @SUM@ a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    for (int32_t o = 0; o < n; ++o) {
      sums[o] = sums[o] + a * w[o] + b * w1[o] + c * w2[o] + d * w3[o];
    }
    w = w3 + pitch;
  }
  for (; i < k; ++i) {
    const @SUM@ v = x[i];
    for (int32_t o = 0; o < n; ++o) {
      sums[o] += v * w[o];
    }
    if (i + 1 < k) {
      w += pitch;
    }
  }
}
