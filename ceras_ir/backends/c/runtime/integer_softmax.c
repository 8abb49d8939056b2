/* Softmax along the middle dimension of [outer, n, inner]: exponentials of the distance to the
 * maximum from tables, divided by their sum. The unit before the shift is 2^-31. */
static void integer_softmax_@NAME@(const @IN@ *restrict x, @OUT@ *restrict y,
                                   @TABLE@,
                                   int32_t last, int32_t outer, int32_t n, int32_t inner,
                                   int32_t shift, int32_t zero_point, int32_t low, int32_t high)
{
  const uint32_t half = UINT32_C(1) << (shift - 1);
  const uint32_t end = (uint32_t)last; /* A distance is not negative. */
  for (int32_t i = 0; i < outer; ++i) {
    for (int32_t j = 0; j < inner; ++j) {
      const @IN@ *from = &x[(i * n * inner) + j];
      @OUT@ *to = &y[(i * n * inner) + j];
      int32_t most = from[0];
      uint32_t sum = 0;
      for (int32_t k = 1; k < n; ++k) {
        most = (from[k * inner] > most) ? from[k * inner] : most;
      }
      for (int32_t k = 0; k < n; ++k) {
        const uint32_t distance = (uint32_t)(most - from[k * inner]);
        const uint32_t d = (distance < end) ? distance : end;
        sum += @ENTRY@;
      }
      const uint32_t reciprocal = UINT32_C(0x7fffffff) / sum;
      for (int32_t k = 0; k < n; ++k) {
        const uint32_t distance = (uint32_t)(most - from[k * inner]);
        const uint32_t d = (distance < end) ? distance : end;
        const uint32_t e = @ENTRY@ * reciprocal;
        const int32_t v = (int32_t)((e + half) >> shift) + zero_point;
        to[k * inner] = (@OUT@)((v < low) ? low : (v > high) ? high : v);
      }
    }
  }
}
