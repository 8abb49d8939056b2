#include "zero_blocks.h"

#include "operation.h"

namespace ceras {

std::vector<uint8_t> live_blocks(const Layer& layer) {
  if (!layer.operation->takes(EPILOGUE) || !layer.quantized() || layer.groups != 1) return {};
  const Tensor& weights = layer.weights();
  if (!weights.constant()) return {};
  const int64_t outputs = weights.dims[0], products = weights.elements / outputs;
  const int64_t across = blocks_of(products);
  const uint8_t zero = static_cast<uint8_t>(weights.zero_point);
  std::vector<uint8_t> live(static_cast<size_t>(blocks_of(outputs) * across));
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t k = 0; k < products; ++k)
      if (weights.data[o * products + k] != zero)
        live[static_cast<size_t>(o / ZERO_BLOCK * across + k / ZERO_BLOCK)] = 1;
  if (std::find(live.begin(), live.end(), uint8_t{0}) == live.end()) return {};
  return live;
}

}  // namespace ceras
