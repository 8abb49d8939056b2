/* sums[p] = the sum over entries, in order, of w * x[at + p], for @COUNT@ positions. */
static void sparse_sums_@NAME@(const @ELEMENT@ *restrict x, const struct sparse_entry_@ENTRY@ *restrict e,
                             int32_t n, @SUM@ *restrict sums)
{
  @SUM@ s[@COUNT@] = {0};
  for (; n > 0; --n) {
    const @ELEMENT@ *at = &x[e->at];
    const @SUM@ w = e->w;
    MODEL_UNROLLED
    for (int32_t p = 0; p < @COUNT@; ++p) {
      s[p] += w * at[p];
    }
    ++e;
  }
  for (int32_t p = 0; p < @COUNT@; ++p) {
    sums[p] = s[p];
  }
}
