// The C interface, and the execution of layers.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "ceras.h"
#include "fpga.h"
#include "loader.h"
#include "operation.h"

struct ceras_model {
  ceras::Model model;
  std::string failure;
};

namespace ceras {
namespace {

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

ceras_rows rows_of(const Tensor& tensor) {
  const size_t unit = static_cast<size_t>(bytes_of(tensor.storage));
  const size_t bytes = static_cast<size_t>(tensor.bytes);
  if (!tensor.has_gaps()) return {tensor.data, 1, bytes, bytes};
  return {tensor.data, static_cast<size_t>(tensor.elements / tensor.row),
          static_cast<size_t>(tensor.row) * unit, static_cast<size_t>(tensor.pitch) * unit};
}

// Return the last layer before `end` that wrote `tensor`, or `end`.
size_t maker_of(const Model& model, const Tensor* tensor, size_t end) {
  for (size_t i = end; i-- > 0;)
    if (model.layers[i].result == tensor) return i;
  return end;
}

bool reads(const Layer& layer, const Tensor* tensor, Device side) {
  for (size_t i = 0; i < layer.operands.size(); ++i)
    if (layer.operands[i] == tensor && side_of(layer, i) == side) return true;
  return false;
}

// Report the transfer of `tensor` to `side` if layer `reader` is the first consumer there.
void show_crossing(const Model& model, const Tensor* tensor, Device side, size_t reader,
                   ceras_transfer transfer, void* context) {
  const size_t maker = maker_of(model, tensor, reader);
  const bool made = maker < reader;
  if (tensor->constant() || (made ? model.layers[maker].device : Device::Cpu) == side) return;
  for (size_t i = made ? maker + 1 : 0; i < reader; ++i)
    if (reads(model.layers[i], tensor, side)) return;
  const ceras_crossing crossing{reader, side == Device::Fpga,
                                static_cast<size_t>(tensor->data - model.base), rows_of(*tensor)};
  transfer(context, &crossing);
}

// Let hardware plan the layers.
void plan(Model& model) {
  if (fpga_circuits == nullptr) return;
  fpga_circuits->begin_planning();
  for (const Layer& layer : model.layers)
    if (layer.device == Device::Fpga) layer.run(layer, model.scratch);
  fpga_circuits->end_planning();
}

}  // namespace

int64_t no_scratch(const Layer&) { return 0; }

void pack_nothing(const Layer&, uint8_t*) {}

const Operation* operation_of(uint32_t opcode) {
  for (const Family* family : {&BINARY, &ELEMENTWISE, &LINEAR, &LOGIC, &MOVEMENT, &POOLING,
                               &RECURRENT, &REDUCTION, &ROWS})
    for (size_t i = 0; i < family->count; ++i)
      if (family->first[i].opcode == opcode) return family->first + i;
  return nullptr;
}

Run operator_of(const Layer& layer) {
  return layer.device == Device::Fpga ? fpga_operator_of(layer) : layer.operation->run(layer);
}

int64_t scratch_bytes(const Layer& layer) {
  return layer.device == Device::Cpu ? layer.operation->scratch(layer) : fpga_scratch_bytes(layer);
}

double work_of_elements(const Layer& layer) {
  return static_cast<double>(layer.output().elements);
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
    ceras::plan(loaded->model);
    *model = loaded.release();
    return CERAS_OK;
  } catch (const ceras::FpgaError& error) {
    if (message != nullptr) std::snprintf(message, message_size, "%s", error.what());
    return CERAS_BAD_DEVICE;
  } catch (const std::bad_alloc&) {
    if (message != nullptr) std::snprintf(message, message_size, "not enough memory");
    return CERAS_OUT_OF_MEMORY;
  }
}

void ceras_unload(ceras_model* model) { delete model; }

void ceras_reset(ceras_model* model) { ceras::reset(model->model); }

size_t ceras_input_count(const ceras_model* model) {
  return model->model.inputs.size() - model->model.states.size();
}

size_t ceras_output_count(const ceras_model* model) {
  return model->model.outputs.size() - model->model.states.size();
}

ceras_tensor ceras_input_info(const ceras_model* model, size_t index) {
  return ceras::describe(model->model.inputs[index]);
}

ceras_tensor ceras_output_info(const ceras_model* model, size_t index) {
  return ceras::describe(model->model.outputs[index]);
}

void* ceras_input(ceras_model* model, size_t index) {
  ceras::cpu_writes(*model->model.inputs[index].tensor);
  return model->model.inputs[index].tensor->target;
}

const void* ceras_output(const ceras_model* model, size_t index) {
  return model->model.outputs[index].tensor->data;
}

ceras_status ceras_run(ceras_model* model) { return ceras_run_traced(model, nullptr, nullptr); }

const char* ceras_failure(const ceras_model* model) { return model->failure.c_str(); }

ceras_status ceras_run_traced(ceras_model* model, ceras_trace trace, void* context) {
  if (!model->failure.empty()) return CERAS_BAD_DEVICE;
  size_t number = 0;
  try {
    for (const ceras::State& state : model->model.states) {
      ceras::cpu_writes(*state.input);
      std::memcpy(state.input->target, state.kept.get(), static_cast<size_t>(state.input->bytes));
    }
    for (const ceras::Layer& layer : model->model.layers) {
      if (layer.device == ceras::Device::Cpu) ceras::cpu_uses(layer);
      layer.run(layer, model->model.scratch);
      if (trace != nullptr) {
        ceras::cpu_reads(layer.output());
        const ceras_rows result = ceras::rows_of(layer.output());
        trace(context, number, &result);
      }
      ++number;
    }
    for (const ceras::Border& output : model->model.outputs) ceras::cpu_reads(*output.tensor);
    for (ceras::State& state : model->model.states)
      std::memcpy(state.kept.get(), state.output->data, static_cast<size_t>(state.output->bytes));
  } catch (const ceras::FpgaError& error) {
    const auto& layers = model->model.layers;
    if (error.layer != nullptr)
      number = static_cast<size_t>(static_cast<const ceras::Layer*>(error.layer) - layers.data());
    model->failure =
        number < layers.size()
            ? "layer " + std::to_string(number) + " '" + layers[number].name + "': " + error.what()
            : error.what();
    return CERAS_BAD_DEVICE;
  }
  return CERAS_OK;
}

void ceras_transfers(const ceras_model* model, ceras_transfer transfer, void* context) {
  const ceras::Model& m = model->model;
  for (size_t i = 0; i < m.layers.size(); ++i) {
    // A single time for each side that reads a value.
    for (const ceras::Device side : {ceras::Device::Cpu, ceras::Device::Fpga}) {
      const auto& operands = m.layers[i].operands;
      for (auto at = operands.begin(); at != operands.end(); ++at)
        if (std::find(operands.begin(), at, *at) == at && ceras::reads(m.layers[i], *at, side))
          ceras::show_crossing(m, *at, side, i, transfer, context);
    }
  }
  for (const ceras::Border& output : m.outputs)
    ceras::show_crossing(m, output.tensor, ceras::Device::Cpu, m.layers.size(), transfer, context);
}

}  // extern "C"
