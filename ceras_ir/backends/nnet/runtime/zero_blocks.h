// Find blocks of zero weights (16 output channels by 16 products) when a model is loaded. Their
// products are zero for all inputs and are not computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "model.h"

namespace ceras {

constexpr int64_t ZERO_BLOCK = 16;

constexpr int64_t blocks_of(int64_t count) { return (count + ZERO_BLOCK - 1) / ZERO_BLOCK; }

// For each block, whether a weight is not zero. Empty if all blocks have nonzero weights, or if the
// weights are not constant integers of a single group.
std::vector<uint8_t> live_blocks(const Layer& layer);

// Move the live blocks of `rows` rows together. Rows are `step` apart. Return the new length.
inline int64_t keep_live(const uint8_t* live, int64_t blocks, const int16_t* from, int64_t step,
                         int64_t rows, int16_t* to) {
  const int64_t length = ZERO_BLOCK * std::count(live, live + blocks, uint8_t{1});
  for (int64_t r = 0; r < rows; ++r) {
    int16_t* next = to + r * length;
    for (int64_t b = 0; b < blocks; ++b)
      if (live[b] != 0) {
        std::memcpy(next, from + r * step + b * ZERO_BLOCK, ZERO_BLOCK * sizeof *next);
        next += ZERO_BLOCK;
      }
  }
  return length;
}

}  // namespace ceras
