/* The leaf of a tree for `x`, a number below 0. Nodes are at least 0. A feature below 0 sends NaN
 * to the left child, other features send NaN to the right child. */
static int32_t tree_leaf_@NAME@(const float *x, int32_t at, const @FEATURE@ *features,
                                const float *thresholds, const @CHILD@ *children)
{
  while (at >= 0) {
    const int32_t f = features[at];
    const float bound = thresholds[at];
    const int right = (f < 0) ? (x[-1 - f] > bound) : !(x[f] <= bound);
    at = children[(2 * at) + right];
  }
  return at;
}
