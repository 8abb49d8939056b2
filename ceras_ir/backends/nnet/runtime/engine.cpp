// The C interface, and which operator runs a layer.
#include <cstdio>
#include <new>

#include "ceras.h"
#include "fpga.h"
#include "loader.h"
#include "operators.h"

struct ceras_model {
  ceras::Model model;
};

namespace ceras {
namespace {

Run fpga_operator_of(const Layer& layer) {
  switch (layer.opcode) {
    case Opcode::Pool2d:
      return fpga_pool2d;
    case Opcode::Binary:
      return fpga_add;
    default:
      return fpga_linear;
  }
}

ceras_tensor describe(const Border& border) {
  const Tensor& tensor = *border.tensor;
  ceras_tensor info{};
  info.name = border.name;
  info.storage = static_cast<ceras_storage>(tensor.storage);
  info.rank = tensor.rank;
  for (uint32_t i = 0; i < tensor.rank; ++i) info.shape[i] = static_cast<uint32_t>(tensor.dims[i]);
  info.bytes = static_cast<size_t>(tensor.bytes);
  info.scale = tensor.scale;
  info.zero_point = static_cast<int32_t>(tensor.zero_point);
  return info;
}

}  // namespace

Run operator_of(const Layer& layer) {
  if (layer.device == Device::Fpga) return fpga_operator_of(layer);
  const bool quantized = layer.output().quantized();
  switch (layer.opcode) {
    case Opcode::Conv2d:
    case Opcode::Matmul:
      return !quantized ? conv2d_float : is_depthwise(layer) ? conv2d_depthwise : conv2d_integer;
    case Opcode::Pool2d:
      if (!quantized) return pool2d_float;
      return layer.attributes[0] == POOL_AVERAGE ? pool2d_average : pool2d_maximum;
    case Opcode::Unary:
      return unary;
    case Opcode::Binary:
      return quantized ? binary_integer : binary_float;
    case Opcode::Lookup:
      return lookup;
    case Opcode::Softmax:
      return softmax;
    case Opcode::Reshape:
      return reshape;
    case Opcode::Transpose:
      return transpose;
    case Opcode::Slice:
      return slice;
    case Opcode::Pad:
      return pad;
    case Opcode::Concat:
      return concat;
    case Opcode::Resize:
      return layer.attributes[0] == RESIZE_LINEAR ? resize_linear : resize_nearest;
    case Opcode::Quantize:
      return quantize;
    case Opcode::Dequantize:
      return dequantize;
    default:
      return requantize_layer;
  }
}

int64_t scratch_bytes(const Layer& layer) {
  const bool linear = layer.opcode == Opcode::Conv2d || layer.opcode == Opcode::Matmul;
  return linear && layer.device == Device::Cpu ? linear_scratch_bytes(layer) : 0;
}

// What one run takes at most: products of a sum, elements of a window, or elements. A small
// file can ask for years, which is as good as a hang.
double work_of(const Layer& layer) {
  const Tensor& out = layer.output();
  const double elements = static_cast<double>(out.elements);
  switch (layer.opcode) {
    case Opcode::Conv2d:
    case Opcode::Matmul:
      return elements * static_cast<double>(layer.weights().elements / layer.weights().dims[0]);
    case Opcode::Pool2d:
      return elements * static_cast<double>(layer.window.kernel[0]) *
             static_cast<double>(layer.window.kernel[1]);
    default:
      return elements;
  }
}

}  // namespace ceras

extern "C" {

ceras_status ceras_load(const void* data, size_t size, ceras_model** model, char* message,
                        size_t message_size) {
  *model = nullptr;
  if (message != nullptr && message_size > 0) message[0] = 0;
  try {
    auto loaded = std::make_unique<ceras_model>();
    if (!ceras::load(static_cast<const uint8_t*>(data), size, loaded->model, message, message_size))
      return CERAS_BAD_MODEL;
    *model = loaded.release();
    return CERAS_OK;
  } catch (const std::bad_alloc&) {
    if (message != nullptr) std::snprintf(message, message_size, "not enough memory");
    return CERAS_OUT_OF_MEMORY;
  }
}

void ceras_unload(ceras_model* model) { delete model; }

size_t ceras_input_count(const ceras_model* model) { return model->model.inputs.size(); }

size_t ceras_output_count(const ceras_model* model) { return model->model.outputs.size(); }

ceras_tensor ceras_input_info(const ceras_model* model, size_t index) {
  return ceras::describe(model->model.inputs[index]);
}

ceras_tensor ceras_output_info(const ceras_model* model, size_t index) {
  return ceras::describe(model->model.outputs[index]);
}

void* ceras_input(ceras_model* model, size_t index) {
  return model->model.inputs[index].tensor->target;
}

const void* ceras_output(const ceras_model* model, size_t index) {
  return model->model.outputs[index].tensor->data;
}

void ceras_run(ceras_model* model) { ceras_run_traced(model, nullptr, nullptr); }

void ceras_run_traced(ceras_model* model, ceras_trace trace, void* context) {
  size_t number = 0;
  for (const ceras::Layer& layer : model->model.layers) {
    layer.run(layer, model->model.scratch);
    if (trace != nullptr)
      trace(context, number, layer.output().data, static_cast<size_t>(layer.output().bytes));
    ++number;
  }
}

}  // extern "C"
