// Iterate over the rows of elementwise operators, with broadcasting as in numpy.
#pragma once

#include <algorithm>

#include "integers.h"

namespace ceras {

// Along a row, each of `count` operands advances by 0 or 1 elements.
template <int operands>
struct Rows {
  int64_t length = 1, count = 1, pitch = 0;
  int64_t steps[operands] = {};
  uint32_t rank = 0;
  int64_t dims[MAX_RANK] = {}, strides[operands][MAX_RANK] = {};

  explicit Rows(const Layer& layer) {
    const Tensor& out = layer.output();
    bool flat = !out.has_gaps();
    for (int i = 0; i < operands; ++i) {
      const Tensor& operand = *layer.operands[i];
      flat = flat && !operand.has_gaps() &&
             (operand.elements == out.elements || operand.elements == 1);
      steps[i] = operand.elements == 1 ? 0 : 1;
    }
    if (flat || out.rank == 0) {
      length = out.elements;
      return;
    }
    rank = out.rank - 1;
    length = out.dims[rank];
    count = out.elements / length;
    pitch = out.pitch;
    std::copy(out.dims, out.dims + rank, dims);
    for (int i = 0; i < operands; ++i) stride(*layer.operands[i], out.rank, i);
  }

  void stride(const Tensor& operand, uint32_t out_rank, int index) {
    const uint32_t missing = out_rank - operand.rank;
    int64_t elements = 1;
    for (uint32_t d = out_rank; d-- > missing;) {
      const int64_t extent = operand.dims[d - missing];
      const int64_t step = extent == 1 ? 0 : elements;
      if (d == out_rank - 1)
        steps[index] = step;
      else
        strides[index][d] = step;
      elements = d == out_rank - 1 ? operand.pitch : elements * extent;
    }
    if (operand.rank == 0) steps[index] = 0;
  }

  // The first element of row `row` of an operand.
  int64_t start(int index, int64_t row) const {
    int64_t at = 0;
    for (uint32_t d = rank; d-- > 0;) {
      at += row % dims[d] * strides[index][d];
      row /= dims[d];
    }
    return at;
  }

  // Calls `body(first element of each operand, that of the result, count)` with at most a chunk
  // each.
  template <class Body>
  void each_part(Body body) const {
    for (int64_t row = 0; row < count; ++row) {
      int64_t from[operands];
      for (int i = 0; i < operands; ++i) from[i] = start(i, row);
      for (int64_t at = 0; at < length; at += CHUNK) {
        const int64_t now = std::min(CHUNK, length - at);
        body(from, row * pitch + at, now);
        for (int i = 0; i < operands; ++i) from[i] += now * steps[i];
      }
    }
  }
};

// Return whether the operands broadcast to the result.
const char* check_broadcast(const Layer& layer);

}  // namespace ceras
