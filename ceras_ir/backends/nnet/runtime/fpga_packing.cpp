// Pack constants for the circuits of the FPGA: weights in the order of the array, constants and
// shifts of output channels, and tables. Computed weights are packed before each run.
#include <algorithm>
#include <map>
#include <utility>

#include "fpga_host.h"

namespace ceras {
namespace {

bool takes_weights(const Layer& layer) {
  return layer.device == Device::Fpga && layer.operation->circuit == Circuit::Array;
}

void fpga_pack_tables(Model& model) {
  const auto looks_up = [](const Layer& layer) {
    return layer.device == Device::Fpga && layer.table != nullptr;
  };
  // Reserve the total size, so that no packed weights are moved.
  size_t entries = 0, rows = 0;
  for (const Layer& layer : model.layers) {
    if (!looks_up(layer)) continue;
    entries += std::max<size_t>(distinct_tables(layer).size(), 1) * TABLE_BYTES *
               static_cast<size_t>(bytes_of(layer.output().storage));
    rows += layer.tables.size();
  }
  model.tables.reserve(entries);
  model.table_rows.reserve(rows);
  for (Layer& layer : model.layers) {
    if (!looks_up(layer)) continue;
    const size_t bytes =
        TABLE_BYTES * static_cast<size_t>(bytes_of(layer.output().storage));
    layer.table_entries = model.tables.data() + model.tables.size();
    const std::vector<const uint8_t*> found = distinct_tables(layer);
    // A lookup without attributes has the table of the record.
    if (found.empty()) model.tables.insert(model.tables.end(), layer.table, layer.table + bytes);
    for (const uint8_t* table : found)
      model.tables.insert(model.tables.end(), table - bytes / 2, table + bytes / 2);
    if (found.size() < 2) continue;
    layer.table_rows = model.table_rows.data() + model.table_rows.size();
    for (const uint8_t* table : layer.tables)
      model.table_rows.push_back(static_cast<uint8_t>(
          std::find(found.begin(), found.end(), table) - found.begin()));
  }
}

}  // namespace

int64_t packed_bytes(const Layer& layer) {
  if (is_depthwise(layer)) return layer.weights().elements;
  return fpga_weight_bytes(layer.weights().dims[0], products_of(layer));
}

int64_t constant_bytes(const Layer& layer) {
  constexpr int64_t ALIGNMENT = 64;
  const int64_t bytes = layer.weights().dims[0] * static_cast<int64_t>(sizeof(int32_t));
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void put_constants(const Layer& layer, int32_t* constants) {
  const uint8_t* bias = layer.bias != nullptr ? layer.bias->data : nullptr;
  fpga_channel_constants(bytes_at(layer.weights()), layer.weights().dims[0], products_of(layer),
                         reinterpret_cast<const int32_t*>(bias), zero_of(layer.input()), constants);
}

void put_weights(const Layer& layer, int8_t* packed) {
  (is_depthwise(layer) ? fpga_pack_depthwise : fpga_pack_weights)(
      bytes_at(layer.weights()), layer.weights().dims[0], products_of(layer), packed);
}

std::vector<const uint8_t*> distinct_tables(const Layer& layer) {
  std::vector<const uint8_t*> found;
  for (const uint8_t* table : layer.tables)
    if (std::find(found.begin(), found.end(), table) == found.end()) {
      found.push_back(table);
      if (found.size() > static_cast<size_t>(FPGA_MAX_TABLES)) break;
    }
  return found;
}

bool fpga_pack(Model& model) {
  fpga_pack_tables(model);
  constexpr int64_t CHANNEL_BYTES = sizeof(int32_t) + sizeof(int8_t);
  // The weights in both orders.
  std::map<std::pair<const Tensor*, bool>, int64_t> places;
  int64_t bytes = 0, channels = 0;
  for (const Layer& layer : model.layers) {
    if (!takes_weights(layer)) continue;
    const Tensor& weights = layer.weights();
    channels += weights.dims[0];
    if (!packs_in_each_run(layer) &&
        places.emplace(std::pair(&weights, is_depthwise(layer)), bytes).second)
      bytes += packed_bytes(layer);
    if (bytes + channels * CHANNEL_BYTES > MAX_PACKED_BYTES) return false;
  }
  model.packed.reset(new int8_t[static_cast<size_t>(bytes)]());
  model.constants.reset(new int32_t[static_cast<size_t>(channels)]);
  model.shifts.reset(new int8_t[static_cast<size_t>(channels)]);
  int64_t at = 0;
  for (Layer& layer : model.layers) {
    if (!takes_weights(layer)) continue;
    const int64_t outputs = layer.weights().dims[0];
    int8_t* shifts = model.shifts.get() + at;
    if (!packs_in_each_run(layer)) {
      const std::pair place(&layer.weights(), is_depthwise(layer));
      int8_t* packed = model.packed.get() + places.at(place);
      int32_t* constants = model.constants.get() + at;
      put_weights(layer, packed);
      put_constants(layer, constants);
      layer.packed = packed;
      layer.constants = constants;
    }
    for (int64_t o = 0; o < outputs; ++o)
      shifts[o] = static_cast<int8_t>(layer.requant.shift - log2_of(multiplier_of(layer, o)));
    // Equal shifts of all channels are stored in a register.
    if (std::any_of(shifts, shifts + outputs, [&](int8_t shift) { return shift != *shifts; }))
      layer.shifts = shifts;
    at += outputs;
  }
  return true;
}

bool packs_in_each_run(const Layer& layer) {
  return takes_weights(layer) && !layer.weights().constant();
}

int64_t fpga_scratch_bytes(const Layer& layer) {
  return packs_in_each_run(layer) ? constant_bytes(layer) + packed_bytes(layer) : 0;
}

Device side_of(const Layer& layer, size_t operand) {
  constexpr size_t WEIGHTS = 1;
  return operand == WEIGHTS && packs_in_each_run(layer) ? Device::Cpu : layer.device;
}

}  // namespace ceras
