// Proof that no accumulator overflows, for every input; operators then compute without care.
#include <algorithm>

#include "checks.h"

namespace ceras {

int64_t magnitude(const Tensor& t) {
  return std::max(high_of(t.storage) - t.zero_point, t.zero_point - low_of(t.storage));
}

const char* fits_64(int64_t bound, int64_t multiplier) {
  constexpr int64_t LIMIT = int64_t{1} << 62;
  return bound <= LIMIT / multiplier ? nullptr : "its requantization may overflow 64 bits";
}

const char* operand_fits(const Layer& layer) {
  return fits_64(magnitude(layer.input()), layer.requant.multiplier);
}

const char* check_accumulator(const Layer& layer) {
  return layer.has_requant ? layer.operation->sum_fits(layer) : nullptr;
}

}  // namespace ceras
