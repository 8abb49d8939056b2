// Declarations for the host side of the FPGA.
#pragma once

#include "fpga.h"
#include "operation.h"

namespace ceras {

inline int log2_of(int64_t value) {
  int result = 0;
  while ((int64_t{1} << result) < value) ++result;
  return result;
}

inline const int8_t* bytes_at(const Tensor& tensor) {
  return reinterpret_cast<const int8_t*>(tensor.data);
}

inline int zero_of(const Tensor& tensor) { return static_cast<int>(tensor.zero_point); }

// The multiplier of an output channel before the common shift.
inline int64_t multiplier_of(const Layer& layer, int64_t channel) {
  if (layer.multipliers == nullptr) return layer.requant.multiplier;
  return reinterpret_cast<const int32_t*>(layer.multipliers->data)[channel];
}

inline int64_t products_of(const Layer& layer) {
  return layer.weights().elements / layer.weights().dims[0];
}

// Return whether the layer is depthwise: each group has a single channel and output.
inline bool is_depthwise(const Layer& layer) {
  return layer.groups > 1 && layer.groups == layer.weights().dims[0] &&
         layer.weights().dims[3] == 1;
}

// The constants of output channels: the bias minus the contribution of the zero point of the input.
void put_constants(const Layer& layer, int32_t* constants);
// Pack weights in the order of the array. `packed` must be zero before.
void put_weights(const Layer& layer, int8_t* packed);
int64_t packed_bytes(const Layer& layer);
// The size of constants of a layer with computed weights. The packed weights follow in the scratch.
int64_t constant_bytes(const Layer& layer);
// The number of different tables of a layer, counted up to one more than the FPGA has.
std::vector<const uint8_t*> distinct_tables(const Layer& layer);

// Return why the FPGA cannot copy the boxes of a layer, or null.
const char* check_fpga_move(const Layer& layer);
// The boxes that a checked layer copies.
std::vector<FpgaBox> fpga_boxes_of(const Layer& layer);
// Return whether any byte is not in place.
bool moves_any(const Layer& layer);

// Return whether an operand of a concatenation is in place.
bool is_in_its_slice(const Layer& layer, size_t index);

}  // namespace ceras
