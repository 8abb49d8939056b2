// What the files of the FPGA's host side share.
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

// What an output channel is multiplied by before all are shifted alike.
inline int64_t multiplier_of(const Layer& layer, int64_t channel) {
  if (layer.multipliers == nullptr) return layer.requant.multiplier;
  return reinterpret_cast<const int32_t*>(layer.multipliers->data)[channel];
}

inline int64_t products_of(const Layer& layer) {
  return layer.weights().elements / layer.weights().dims[0];
}

// As many groups as channels, each of which makes one.
inline bool is_depthwise(const Layer& layer) {
  return layer.groups > 1 && layer.groups == layer.weights().dims[0] &&
         layer.weights().dims[3] == 1;
}

// Constants of each output channel: the bias, less what the input's zero point adds to its sums.
void put_constants(const Layer& layer, int32_t* constants);
// Weights in the order of the array; `packed` is zero before.
void put_weights(const Layer& layer, int8_t* packed);
int64_t packed_bytes(const Layer& layer);
// Of the constants of a layer that packs in each run; its packed weights follow in the scratch.
int64_t constant_bytes(const Layer& layer);
// The different tables of a layer; of more than the FPGA has, one more.
std::vector<const uint8_t*> distinct_tables(const Layer& layer);

// What keeps the mover from a layer; null if nothing does.
const char* check_fpga_move(const Layer& layer);
// What a checked layer moves.
std::vector<FpgaBox> fpga_boxes_of(const Layer& layer);
// Whether any byte is not already where it goes.
bool moves_any(const Layer& layer);

// Whether an operand of a concatenation is already where the result has it.
bool is_in_its_slice(const Layer& layer, size_t index);

}  // namespace ceras
