// Prove that no accumulator overflows for any input, so that operators need no overflow checks.
#include <algorithm>
#include <cstdlib>

#include "checks.h"
#include "integers.h"

namespace ceras {

int64_t magnitude(const Tensor& t) {
  return std::max(high_of(t.storage) - t.zero_point, t.zero_point - low_of(t.storage));
}

int64_t row_magnitude(const Tensor& weights, int64_t row, int64_t length) {
  if (!weights.constant()) return length * magnitude(weights);
  int64_t sum = 0, chunk[CHUNK];
  for (int64_t start = 0; start < length; start += CHUNK) {
    const int64_t count = std::min(CHUNK, length - start);
    read_centred(weights, row * length + start, count, chunk);
    for (int64_t i = 0; i < count; ++i) sum += std::abs(chunk[i]);
  }
  return sum;
}

const char* fits_64(int64_t bound, int64_t multiplier) {
  constexpr int64_t LIMIT = int64_t{1} << 62;
  return bound <= LIMIT / multiplier ? nullptr : "the requantization may overflow 64 bits";
}

const char* operand_fits(const Layer& layer) {
  return fits_64(magnitude(layer.input()), layer.requant.multiplier);
}

const char* check_accumulator(const Layer& layer) {
  return layer.has_requant ? layer.operation->sum_fits(layer) : nullptr;
}

}  // namespace ceras
