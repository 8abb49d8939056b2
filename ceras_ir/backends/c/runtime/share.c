#if defined(_OPENMP)
#include <omp.h>
#endif
/* The units of work of a layer that a thread computes: from `first` up to `end`. */
struct share {
  int32_t first, end;
};

/* The units of this thread among `count`, the same for each layer with as many units. The first
 * threads have more than the last. */
MODEL_STATIC struct share share_of(int32_t count)
{
  struct share own = {0, count};
#if defined(_OPENMP)
  const int64_t threads = omp_get_num_threads();
  const int64_t number = omp_get_thread_num();
  own.first = (int32_t)(((count * number) + threads - 1) / threads);
  own.end = (int32_t)(((count * (number + 1)) + threads - 1) / threads);
#endif
  return own;
}

MODEL_STATIC int32_t share_bound(int32_t bound, int32_t count)
{
  return (bound <= 0) ? 0 : ((bound < count) ? bound : count);
}

/* The part of `whole` among the `count` units from number `start`, counted from there. */
MODEL_STATIC struct share share_within(struct share whole, int32_t start, int32_t count)
{
  const struct share own = {share_bound(whole.first - start, count),
                            share_bound(whole.end - start, count)};
  return own;
}
