// Proof that no accumulator overflows, for every input; operators then compute without care.
#include <algorithm>
#include <cstdlib>

#include "integers.h"
#include "model.h"

namespace ceras {
namespace {

constexpr int64_t LIMIT_32 = INT32_MAX;
constexpr int64_t LIMIT_64 = int64_t{1} << 62;

// The greatest magnitude of a stored number less the zero point.
int64_t magnitude(const Tensor& t) {
  return std::max(high_of(t.storage) - t.zero_point, t.zero_point - low_of(t.storage));
}

// |accumulator| <= bound: does its product stay within 64 bits, the rounding constant included?
const char* fits_64(int64_t bound, int64_t multiplier) {
  return bound <= LIMIT_64 / multiplier ? nullptr : "its requantization may overflow 64 bits";
}

// Sum of the magnitudes of the weights of one output channel.
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

const char* linear(const Layer& layer) {
  const Tensor& weights = layer.weights();
  const int64_t channels = weights.dims[0], length = weights.elements / channels;
  const int64_t residual =
      layer.residual != nullptr ? magnitude(*layer.residual) << layer.residual_shift : 0;
  int64_t greatest = 0;
  for (int64_t row = 0; row < channels; ++row) {
    int64_t bias = 0;
    if (layer.bias != nullptr) {
      if (!layer.bias->constant()) return "its bias must be a constant";
      read_integers(*layer.bias, row, 1, &bias);
    }
    const int64_t sum = row_magnitude(weights, row, length) * magnitude(layer.input());
    greatest = std::max(greatest, sum + std::abs(bias) + residual);
  }
  if (greatest > LIMIT_32) return "its accumulator may overflow 32 bits";
  return fits_64(greatest, layer.requant.multiplier);
}

}  // namespace

const char* check_accumulator(const Layer& layer) {
  if (!layer.has_requant) return nullptr;
  const Requant& r = layer.requant;
  switch (layer.opcode) {
    case Opcode::Conv2d:
    case Opcode::Matmul:
      return linear(layer);
    case Opcode::Pool2d: {
      const int64_t taps = layer.window.kernel[0] * layer.window.kernel[1];
      const auto& padding = layer.window.padding;
      const bool partial = layer.attributes[11] == 0 &&
                           std::any_of(padding, padding + 4, [](int64_t p) { return p != 0; });
      // Multipliers of windows at the border grow to `taps` times that of a full one.
      if (partial && r.multiplier > LIMIT_32 / taps)
        return "the multiplier of one element exceeds 31 bits";
      const int64_t multiplier = partial ? r.multiplier * taps : r.multiplier;
      return fits_64(taps * magnitude(layer.input()), multiplier);
    }
    case Opcode::Binary: {
      int64_t bound = layer.attributes[0] == BINARY_MUL ? 1 : 0;
      for (size_t i = 0; i < 2; ++i) {
        const int64_t own = magnitude(*layer.operands[i]) * layer.factors[i];
        if (layer.attributes[0] == BINARY_MUL)
          bound *= own;
        else
          bound += own;
      }
      return fits_64(bound, r.multiplier);
    }
    default:
      return fits_64(magnitude(layer.input()), r.multiplier);
  }
}

}  // namespace ceras
