// Check operand counts, types, shapes, attributes and overlap of a layer when a model is loaded.
//
// Operators perform no checks. They rely on these checks and on the check of the operation.
#include "checks.h"

#include <algorithm>
#include <cmath>

namespace ceras {
namespace {

// Return whether windows over `input` give exactly `output` positions in dimension 1 or 2.
bool window_fits(const Window& w, int axis, int64_t input, int64_t output) {
  if (w.kernel[axis] < 1 || w.strides[axis] < 1 || w.dilations[axis] < 1) return false;
  const int64_t padded = input + w.padding[axis] + w.padding[axis + 2];
  const int64_t extent = (w.kernel[axis] - 1) * w.dilations[axis] + 1;
  return padded >= extent && (padded - extent) / w.strides[axis] + 1 == output;
}

}  // namespace

const char* accept_as_it_is(Layer&) { return nullptr; }

const char* check_requant(const Layer& layer) {
  const Requant& r = layer.requant;
  const Tensor& out = layer.output();
  if (!layer.has_requant) return "a quantized result needs a requantization";
  if (r.multiplier < 1 || r.multiplier > INT32_MAX) return "the multiplier is out of range";
  if (r.shift > 62) return "the shift is above 62";
  // The input of a table is int8; the entries have the storage of the result.
  const Storage storage = layer.table != nullptr ? Storage::I8 : out.storage;
  if (r.low > r.high || r.low < low_of(storage) || r.high > high_of(storage))
    return "the clamp range is empty or does not fit the result";
  return nullptr;
}

const char* check_rescaling(const Layer& layer) {
  const bool quantized = layer.quantized();
  for (const Tensor* operand : layer.operands)
    if (operand->quantized() != quantized) return "float and quantized tensors are mixed";
  if (!quantized) return layer.has_requant ? "a float layer has no requantization" : nullptr;
  // With a table, the function is only a description of the table.
  if (layer.function != Function::None && layer.table == nullptr)
    return "a quantized layer has no function";
  return check_requant(layer);
}

const char* prepare_window(Layer& layer, size_t at) {
  const auto& words = layer.attributes;
  for (uint32_t word : words)
    if (word > MAX_WINDOW) return "a window attribute is out of range";
  for (int64_t& stride : layer.window.strides) stride = words[at++];
  for (int64_t& pad : layer.window.padding) pad = words[at++];
  for (int64_t& dilation : layer.window.dilations) dilation = words[at++];
  return nullptr;
}

const char* check_window(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.rank != 4 || out.rank != 4 || in.dims[0] != out.dims[0])
    return "input and result must have rank 4 and equal batches";
  for (int axis = 0; axis < 2; ++axis)
    if (!window_fits(layer.window, axis, in.dims[axis + 1], out.dims[axis + 1]))
      return "the window does not give the shape of the result";
  return nullptr;
}

const char* check_broadcast(const Layer& layer) {
  const Tensor& out = layer.output();
  uint32_t rank = 0;
  for (const Tensor* operand : layer.operands) rank = std::max(rank, operand->rank);
  if (out.rank != rank) return "the result has the wrong rank";
  for (uint32_t i = 0; i < rank; ++i) {
    int64_t extent = 1;
    for (const Tensor* operand : layer.operands) {
      const uint32_t missing = rank - operand->rank;
      const int64_t own = i < missing ? 1 : operand->dims[i - missing];
      if (own != 1 && extent != 1 && own != extent) return "the operands do not broadcast";
      extent = std::max(extent, own);
    }
    if (out.dims[i] != extent) return "the result has the wrong shape";
  }
  return nullptr;
}

const char* check_layer(const Layer& layer) {
  const Operation& operation = *layer.operation;
  const Tensor& out = layer.output();
  if (!operation.takes(FUNCTION) && layer.function != Function::None)
    return "no function is expected";
  if (layer.residual == nullptr && layer.residual_shift != 0)
    return "there is no residual to shift";
  if (!operation.takes(EPILOGUE) && (layer.table != nullptr) != operation.takes(LOOKUP))
    return "wrong lookup table";
  if (layer.has_requant && !operation.takes(REQUANT)) return "wrong requantization";
  for (float parameter : layer.parameters)
    if (std::isnan(parameter)) return "a parameter is not a number";
  if (!operation.takes(ALL_STORAGES) || layer.device == Device::Fpga) {
    bool plain = is_only_plain(out.storage);
    for (const Tensor* operand : layer.operands)
      plain = plain || is_only_plain(operand->storage);
    if (plain) return "no integers of 64 bits and no booleans are expected";
  }
  if (operation.takes(SAME_SHAPE) && !same_shape(layer.input(), out)) return "the shapes differ";
  if (operation.takes(SAME_TYPE))
    for (const Tensor* operand : layer.operands)
      if (!same_type(*operand, out)) return "the result must have the type of the operands";
  if (const char* reason = operation.check(layer)) return reason;
  return check_overlap(layer);
}

}  // namespace ceras
