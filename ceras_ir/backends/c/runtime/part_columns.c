/* sums[o] += x[i] * w[i][o], in the order of i, for n columns of k rows at a distance of `pitch`. */
static void part_columns_@NAME@(@SUM@ *restrict sums, const @ROW@ *restrict x,
                           const @WEIGHT@ *restrict w, int32_t n, int32_t k, int32_t pitch)
{
  for (int32_t i = 0; i < k; ++i, w += pitch) {
    const @SUM@ v = x[i];
    for (int32_t o = 0; o < n; ++o) {
      sums[o] += v * w[o];
    }
  }
}
