// Blocks of weights that are all zero: 16 output channels by 16 products, found when a model is
// loaded. Their products add nothing, whatever the input is, so that nobody computes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "model.h"

namespace ceras {

constexpr int64_t ZERO_BLOCK = 16;

constexpr int64_t blocks_of(int64_t count) { return (count + ZERO_BLOCK - 1) / ZERO_BLOCK; }

// For each 16 output channels, of each 16 products whether one of the weights is not zero. Empty
// where all blocks have such weights, and where weights are not constant integers of one group.
std::vector<uint8_t> live_blocks(const Layer& layer);

// Put the blocks of `rows` rows that `live` names side by side; rows are `step` apart. How long
// they are then.
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
