/* The leaf that a tree leads `x` to, a number below 0. Nodes are at least 0; a feature below 0
 * sends numbers that are none the other way. */
static int32_t tree_leaf_@NAME@(const float *x, int32_t at, const @FEATURE@ *features,
                                const float *thresholds, const @CHILD@ *children)
{
  while (at >= 0) {
    const int32_t f = features[at];
    const float bound = thresholds[at];
    const int right = f < 0 ? x[-1 - f] > bound : !(x[f] <= bound);
    at = children[2 * at + right];
  }
  return at;
}
