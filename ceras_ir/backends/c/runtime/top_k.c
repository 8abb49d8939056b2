/* Whether element a of a row precedes element b: the @WHAT@ element first, NaN last. */
static int comes_first_@NAME@(const @TYPE@ *x, int64_t a, int64_t b)
{
  const @TYPE@ u = x[a];
  const @TYPE@ v = x[b];
  if ((u @SIGN@ v) || (v @SIGN@ u)) {
    return u @SIGN@ v;
  }
@UNORDERED@  return a < b;
}
/* Moves index i of n down a heap with the last element at the top. */
static void sink_@NAME@(const @TYPE@ *x, int64_t *heap, int32_t i, int32_t n)
{
  const int64_t index = heap[i];
  for (int32_t child = (2 * i) + 1; child < n; child = (2 * i) + 1) {
    if (((child + 1) < n) && comes_first_@NAME@(x, heap[child], heap[child + 1])) {
      ++child;
    }
    if (!comes_first_@NAME@(x, index, heap[child])) {
      break;
    }
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = index;
}
/* Whether none of 16 elements precedes `last`. */
static int none_first_@NAME@(const @TYPE@ *x, @TYPE@ last)
{
  int32_t some = 0;
  for (int32_t j = 0; j < 16; ++j) {
    some |= !(x[j] @NO_SIGN@ last);
  }
  return !some;
}
/* The indices of the first k elements of a row of n, in order. Candidates are in order if they are
 * few, otherwise in a heap, which is sorted at the end. Few elements of a row precede the last
 * candidate, so 16 elements are checked together. */
static void top_k_@NAME@(const @TYPE@ *restrict x, int32_t n, int64_t *restrict y, int32_t k)
{
  const int is_heap = k > 32;
  int64_t *const last = is_heap ? y : (y + k - 1);
  for (int32_t i = 0; i < k; ++i) {
    int32_t at = i;
    for (; !is_heap && (at > 0) && comes_first_@NAME@(x, i, y[at - 1]); --at) {
      y[at] = y[at - 1];
    }
    y[at] = i;
  }
  if (is_heap) {
    for (int32_t i = k / 2; i-- > 0;) {
      sink_@NAME@(x, y, i, k);
    }
  }
  @TYPE@ bound = x[*last];
  for (int32_t i = k; i < n; ++i) {
    if (((n - i) >= 16) && none_first_@NAME@(x + i, bound)) {
      i += 15;
      continue;
    }
    for (const int32_t end = ((n - i) < 16) ? n : (i + 16); i < end; ++i) {
      if ((x[i] @NO_SIGN@ bound) || !comes_first_@NAME@(x, i, *last)) {
        continue;
      }
      int32_t at = is_heap ? 0 : (k - 1);
      for (; (at > 0) && comes_first_@NAME@(x, i, y[at - 1]); --at) {
        y[at] = y[at - 1];
      }
      y[at] = i;
      if (is_heap) {
        sink_@NAME@(x, y, 0, k);
      }
      bound = x[*last];
    }
    --i;
  }
  for (int32_t i = k - 1; is_heap && (i > 0); --i) {
    const int64_t top = y[0];
    y[0] = y[i];
    y[i] = top;
    sink_@NAME@(x, y, 0, i);
  }
}
