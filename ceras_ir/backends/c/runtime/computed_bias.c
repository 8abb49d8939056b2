/* Computes the bias of each row of w [n, k]: `start`, or `same` for all rows, minus `moved` times
 * the sum of the row. */
static void computed_bias(int32_t *restrict bias, const int8_t *restrict w, int32_t n, int32_t k,
                          const int32_t *start, int32_t same, int32_t moved)
{
  for (int32_t o = 0; o < n; ++o) {
    int32_t sum = 0;
    for (int32_t i = 0; i < k; ++i) {
      sum += w[i];
    }
    bias[o] = ((start != NULL) ? start[o] : same) - (moved * sum);
    w += k;
  }
}
