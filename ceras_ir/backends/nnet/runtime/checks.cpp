// What must hold before an operator may run: operand counts, types, shapes, attributes, overlap.
//
// The operators check nothing; whatever they rely on is established here, when a model is loaded.
#include <algorithm>
#include <cmath>

#include "integers.h"
#include "model.h"

namespace ceras {
namespace {

bool same_type(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.scale == b.scale && a.zero_point == b.zero_point;
}

bool is_float(const Tensor& t) { return !t.quantized(); }

// 8 or 16 bits: what fits the 64-bit arithmetic of every integer operator.
bool is_narrow(const Tensor& t) { return t.quantized() && t.storage != Storage::I32; }

bool is_byte(const Tensor& t) { return t.storage == Storage::I8 || t.storage == Storage::U8; }

const char* check_requant(const Layer& layer) {
  const Requant& r = layer.requant;
  const Tensor& out = layer.output();
  if (!layer.has_requant) return "a quantized result needs a requantization";
  if (r.multiplier < 1 || r.multiplier > INT32_MAX) return "its multiplier is out of range";
  if (r.shift > 62) return "its shift is above 62";
  if (r.low > r.high || r.low < low_of(out.storage) || r.high > high_of(out.storage))
    return "its clamp range is empty or does not fit the result";
  return nullptr;
}

// All float without requantization, or all quantized with one.
const char* check_rescaling(const Layer& layer) {
  const bool quantized = layer.output().quantized();
  for (const Tensor* operand : layer.operands)
    if (operand->quantized() != quantized) return "it mixes float and quantized tensors";
  if (!quantized) return layer.has_requant ? "a float layer has no requantization" : nullptr;
  if (layer.function != Function::None) return "a quantized layer has no function";
  return check_requant(layer);
}

// Whether windows over `input` give exactly `output` positions in dimension 1 or 2.
bool window_fits(const Window& w, int axis, int64_t input, int64_t output) {
  if (w.kernel[axis] < 1 || w.strides[axis] < 1 || w.dilations[axis] < 1) return false;
  const int64_t padded = input + w.padding[axis] + w.padding[axis + 2];
  const int64_t extent = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
  return padded >= extent && (padded - extent) / w.strides[axis] + 1 == output;
}

const char* check_window(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.rank != 4 || out.rank != 4 || in.dims[0] != out.dims[0])
    return "input and result must have rank 4 and equal batches";
  for (int axis = 0; axis < 2; ++axis)
    if (!window_fits(layer.window, axis, in.dims[axis + 1], out.dims[axis + 1]))
      return "its window does not give the shape of its result";
  return nullptr;
}

// One multiplier per output channel, the greatest of which is that of the requantization.
const char* check_multipliers(const Layer& layer, int64_t channels) {
  const Tensor& all = *layer.multipliers;
  if (!layer.output().quantized()) return "a float layer has no multipliers";
  if (!all.constant() || all.storage != Storage::I32 || all.rank != 1 || all.dims[0] != channels)
    return "its multipliers must be one constant of 32 bits per channel";
  int64_t greatest = 0;
  for (int64_t i = 0; i < channels; ++i) {
    int64_t multiplier = 0;
    read_integers(all, i, 1, &multiplier);
    if (multiplier < 1) return "its multiplier is out of range";
    greatest = std::max(greatest, multiplier);
  }
  return greatest == layer.requant.multiplier ? nullptr
                                              : "its multiplier is not the greatest of them";
}

const char* check_linear(const Layer& layer) {
  const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
  const int64_t channels = weights.rank > 0 ? weights.dims[0] : 0;
  if (weights.has_gaps()) return "weights have no gaps between rows";
  if (layer.opcode == Opcode::Conv2d) {
    if (const char* reason = check_window(layer)) return reason;
    const int64_t g = layer.groups;
    if (g < 1 || in.dims[3] % g != 0 || channels % g != 0 || weights.dims[3] * g != in.dims[3])
      return "its groups do not divide its channels";
    if (out.dims[3] != channels) return "its result has the wrong number of channels";
  } else {
    if (!layer.attributes.empty()) return "wrong number of attributes";
    if (in.rank != 2 || weights.rank != 2 || out.rank != 2 || in.dims[1] != weights.dims[1] ||
        out.dims[0] != in.dims[0] || out.dims[1] != channels)
      return "its shapes are not those of a product";
  }
  if (layer.bias != nullptr && (layer.bias->rank != 1 || layer.bias->dims[0] != channels))
    return "its bias has the wrong shape";
  if (layer.residual != nullptr && !same_shape(*layer.residual, out))
    return "its residual has the wrong shape";
  if (const char* reason = check_rescaling(layer)) return reason;
  if (layer.multipliers != nullptr)
    if (const char* reason = check_multipliers(layer, channels)) return reason;
  if (!out.quantized()) return nullptr;
  const bool wide_input = in.storage == Storage::I16 && in.zero_point == 0;
  if (!is_byte(weights) || !(is_byte(in) || wide_input))
    return "weights of 8 bits and an input of 8, or of 16 bits without zero point, are expected";
  if (layer.bias != nullptr && layer.bias->storage != Storage::I32)
    return "its bias must be stored in 32 bits";
  if (layer.residual != nullptr && !is_narrow(*layer.residual))
    return "its residual must be stored in 8 or 16 bits";
  return layer.residual_shift > 23 ? "its residual shift is above 23" : nullptr;
}

const char* check_pool(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const Window& w = layer.window;
  if (const char* reason = check_window(layer)) return reason;
  if (in.dims[3] != out.dims[3]) return "its result has the wrong number of channels";
  for (int i = 0; i < 4; ++i)
    if (w.padding[i] >= (w.kernel[i % 2] - 1) * w.dilations[i % 2] + 1)
      return "a window lies wholly in the padding";
  if (layer.attributes[0] > POOL_AVERAGE || layer.attributes[11] > 1) return "unknown attribute";
  if (layer.attributes[0] == POOL_AVERAGE) return check_rescaling(layer);
  if (layer.has_requant) return "maximum pooling has no requantization";
  return same_type(in, out) ? nullptr : "maximum pooling keeps the type of its input";
}

const char* check_binary(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.attributes[0] > BINARY_MAX) return "unknown attribute";
  if (out.quantized() && layer.attributes[0] > BINARY_MUL) return "it has no quantized form";
  uint32_t rank = 0;
  for (const Tensor* operand : layer.operands) rank = std::max(rank, operand->rank);
  if (out.rank != rank) return "its result has the wrong rank";
  for (uint32_t i = 0; i < rank; ++i) {
    int64_t extent = 1;
    for (const Tensor* operand : layer.operands) {
      const uint32_t missing = rank - operand->rank;
      const int64_t own = i < missing ? 1 : operand->dims[i - missing];
      if (own != 1 && extent != 1 && own != extent) return "its operands do not broadcast";
      extent = std::max(extent, own);
    }
    if (out.dims[i] != extent) return "its result has the wrong shape";
  }
  for (const Tensor* operand : layer.operands)
    if (out.quantized() && !is_narrow(*operand)) return "operands of 8 or 16 bits are expected";
  return check_rescaling(layer);
}

const char* check_moves(const Layer& layer) {
  const Tensor& out = layer.output();
  const auto& words = layer.attributes;
  for (const Tensor* operand : layer.operands)
    if (!same_type(*operand, out)) return "moving elements keeps their type";
  if (layer.opcode == Opcode::Reshape) {
    if (!words.empty()) return "wrong number of attributes";
    if (layer.input().elements != out.elements) return "its shapes differ in size";
    const bool gaps = layer.input().has_gaps() || out.has_gaps();
    return gaps && layer.input().row != out.row ? "it changes rows that have gaps" : nullptr;
  }
  if (layer.opcode == Opcode::Transpose) {
    if (words.size() != out.rank || layer.input().rank != out.rank) return "wrong rank";
    uint32_t seen = 0;
    for (uint32_t i = 0; i < out.rank; ++i) {
      if (words[i] >= out.rank || (seen >> words[i] & 1u)) return "not a permutation";
      seen |= 1u << words[i];
      if (layer.input().dims[words[i]] != out.dims[i]) return "its result has the wrong shape";
    }
    return nullptr;
  }
  if (words.size() != 1 || words[0] >= out.rank) return "its axis does not exist";
  int64_t total = 0;
  for (const Tensor* operand : layer.operands) {
    if (operand->rank != out.rank) return "wrong rank";
    for (uint32_t i = 0; i < out.rank; ++i)
      if (i != words[0] && operand->dims[i] != out.dims[i]) return "an operand does not fit";
    total += operand->dims[words[0]];
    if (total > out.dims[words[0]]) return "an operand does not fit";
  }
  return total == out.dims[words[0]] ? nullptr : "its operands do not fill its result";
}

// Starts, then signed strides: the first and the last index of each dimension exist.
const char* check_slice(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (!same_type(in, out)) return "moving elements keeps their type";
  if (in.rank != out.rank || layer.attributes.size() != 2 * size_t{out.rank}) return "wrong rank";
  for (uint32_t d = 0; d < out.rank; ++d) {
    const int64_t start = layer.attributes[d];
    const int64_t stride = static_cast<int32_t>(layer.attributes[out.rank + d]);
    // Below 2^31 each, so that the product is exact.
    const int64_t last = start + (out.dims[d] - 1) * stride;
    if (stride == 0 || start >= in.dims[d] || last < 0 || last >= in.dims[d])
      return "it has elements outside its input";
  }
  return nullptr;
}

// Elements before, elements between neighbours, and the stored value of all of them.
const char* check_pad(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (!same_type(in, out)) return "moving elements keeps their type";
  if (in.rank != out.rank || layer.attributes.size() != 2 * size_t{out.rank} + 1)
    return "wrong rank";
  for (uint32_t d = 0; d < out.rank; ++d) {
    const int64_t step = int64_t{layer.attributes[out.rank + d]} + 1;
    if (layer.attributes[d] + (in.dims[d] - 1) * step >= out.dims[d])
      return "it has elements outside its result";
  }
  return nullptr;
}

const char* check_resize(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (in.rank != 4 || out.rank != 4 || in.dims[0] != out.dims[0] || in.dims[3] != out.dims[3])
    return "only height and width can change";
  if (!same_type(in, out)) return "moving elements keeps their type";
  const bool linear = !words.empty() && words[0] == RESIZE_LINEAR;
  if (words.empty() || words[0] > RESIZE_LINEAR || (linear && out.quantized()))
    return "unknown attribute";
  const int64_t entry = linear ? 3 : 1;
  if (static_cast<int64_t>(words.size()) != 1 + entry * (out.dims[1] + out.dims[2]))
    return "wrong number of attributes";
  size_t at = 1;
  for (int axis = 1; axis <= 2; ++axis)
    for (int64_t i = 0; i < out.dims[axis]; ++i, at += static_cast<size_t>(entry))
      for (size_t j = 0; j < (linear ? 2u : 1u); ++j)
        if (words[at + j] >= in.dims[axis]) return "an index lies outside its input";
  return nullptr;
}

// The number of entries, then the table of all channels or of each; the loader found them.
const char* check_lookup(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (layer.table == nullptr) return "a lookup table is missing";
  const bool wide = in.storage == Storage::I16 && !layer.attributes.empty();
  if (out.storage != Storage::I8 || (in.storage != Storage::I8 && !wide)) return "int8 is expected";
  if (layer.attributes.empty()) return nullptr;
  const int64_t channels = out.rank == 0 ? 1 : out.dims[out.rank - 1];
  if (layer.attributes[0] > (wide ? 1u << 16 : 256u)) return "its tables are too long";
  if (layer.tables.size() != 1 && static_cast<int64_t>(layer.tables.size()) != channels)
    return "one table for each channel is expected";
  return nullptr;
}

const char* check_shift_swish(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if ((in.storage != Storage::I8 && in.storage != Storage::I16) || in.zero_point != 0 ||
      !out.quantized())
    return "int8 or int16 without zero point is expected";
  const int64_t channels = out.rank == 0 ? 1 : out.dims[out.rank - 1];
  const int64_t words = static_cast<int64_t>(layer.attributes.size());
  if (words != 5 && words != 5 * channels) return "five bends for each channel are expected";
  for (uint32_t bend : layer.attributes)
    if (bend >= 1u << 15) return "a bend has at most 15 bits";
  return layer.requant.multiplier == 1 ? check_requant(layer) : "it rescales by a shift";
}

// Nothing, or of each channel the exponent of the operand, then of each that of the result.
const char* check_unary(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (layer.function == Function::None) return "a function is missing";
  if (!is_float(in) || !is_float(out)) return "float tensors are expected";
  const int64_t channels = out.rank == 0 ? 1 : out.dims[out.rank - 1];
  const int64_t words = static_cast<int64_t>(layer.attributes.size());
  if (words != 0 && words != 2 * channels) return "two exponents for each channel are expected";
  for (uint32_t word : layer.attributes)
    if (std::abs(static_cast<int64_t>(static_cast<int32_t>(word))) > 64)
      return "an exponent is out of range";
  return nullptr;
}

const char* check_elementwise(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const bool softmax = layer.opcode == Opcode::Softmax;
  if (!same_shape(in, out)) return "its shapes differ";
  const bool rescales = layer.opcode == Opcode::Requantize || layer.opcode == Opcode::ShiftSwish;
  if (layer.has_requant != rescales) return "a wrong requantization";
  if (layer.opcode == Opcode::Unary) return check_unary(layer);
  if (layer.opcode == Opcode::Lookup) return check_lookup(layer);
  if (layer.opcode == Opcode::ShiftSwish) return check_shift_swish(layer);
  if (layer.attributes.size() != (softmax ? 1u : 0u)) return "wrong number of attributes";
  switch (layer.opcode) {
    case Opcode::Softmax:
      if (layer.attributes[0] >= out.rank) return "its axis does not exist";
      return is_float(in) && is_float(out) ? nullptr : "float tensors are expected";
    case Opcode::Quantize:
      return is_float(in) && out.quantized() ? nullptr : "float to quantized is expected";
    case Opcode::Dequantize:
      return in.quantized() && is_float(out) ? nullptr : "quantized to float is expected";
    default:
      return in.quantized() && out.quantized() ? check_requant(layer)
                                               : "quantized tensors are expected";
  }
}

const char* check_opcode(const Layer& layer) {
  switch (layer.opcode) {
    case Opcode::Conv2d:
    case Opcode::Matmul:
      return check_linear(layer);
    case Opcode::Pool2d:
      return check_pool(layer);
    case Opcode::Binary:
      return check_binary(layer);
    case Opcode::Reshape:
    case Opcode::Transpose:
    case Opcode::Concat:
      return check_moves(layer);
    case Opcode::Resize:
      return check_resize(layer);
    case Opcode::Slice:
      return check_slice(layer);
    case Opcode::Pad:
      return check_pad(layer);
    default:
      return check_elementwise(layer);
  }
}

}  // namespace

const char* check_layer(const Layer& layer) {
  const bool linear = layer.opcode == Opcode::Conv2d || layer.opcode == Opcode::Matmul;
  const bool concat = layer.opcode == Opcode::Concat;
  const size_t operands = layer.opcode == Opcode::Binary ? 2 : 1;
  // Those of convolutions and products were counted where bias and residual were found.
  if (!linear && (concat ? layer.operands.empty() : layer.operands.size() != operands))
    return "wrong number of operands";
  const bool takes_function =
      linear || layer.opcode == Opcode::Binary || layer.opcode == Opcode::Unary;
  if (!takes_function && layer.function != Function::None) return "it takes no function";
  if (layer.residual == nullptr && layer.residual_shift != 0) return "it has no residual to shift";
  if ((layer.table != nullptr) != (layer.opcode == Opcode::Lookup)) return "a wrong lookup table";
  const bool moves = concat || layer.opcode == Opcode::Reshape ||
                     layer.opcode == Opcode::Transpose || layer.opcode == Opcode::Resize ||
                     layer.opcode == Opcode::Slice || layer.opcode == Opcode::Pad;
  if (moves && layer.has_requant) return "a wrong requantization";
  for (float parameter : layer.parameters)
    if (std::isnan(parameter)) return "a parameter is not a number";
  if (const char* reason = check_opcode(layer)) return reason;
  return check_overlap(layer);
}

}  // namespace ceras
