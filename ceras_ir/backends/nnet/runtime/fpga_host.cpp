// The host side of the FPGA: check layers for the circuits, and set registers.
#include "fpga.h"

#include <algorithm>
#include <cstring>

#include "fpga_host.h"

namespace ceras {
namespace {

bool is_power_of_two(int64_t value) { return (value & (value - 1)) == 0; }

int8_t* result_of(const Layer& layer) { return reinterpret_cast<int8_t*>(layer.output().target); }

FpgaRescale rescale_of(const Requant& r) {
  const int shift = r.shift - log2_of(r.multiplier);
  return {std::max(-shift, 0),
          std::max(shift, 0),
          r.rounding == Rounding::HalfEven,
          static_cast<int>(r.zero_point),
          static_cast<int>(r.low),
          static_cast<int>(r.high)};
}

// The registers of a window.
FpgaWindow window_of(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  FpgaWindow w{};
  w.height = static_cast<int>(in.dims[1]);
  w.width = static_cast<int>(in.dims[2]);
  w.channels = static_cast<int>(in.dims[3]);
  w.rows = static_cast<int>(out.dims[1]);
  w.columns = static_cast<int>(out.dims[2]);
  w.kernel_height = static_cast<int>(layer.window.kernel[0]);
  w.kernel_width = static_cast<int>(layer.window.kernel[1]);
  w.stride_y = static_cast<int>(layer.window.strides[0]);
  w.stride_x = static_cast<int>(layer.window.strides[1]);
  w.top = static_cast<int>(layer.window.padding[0]);
  w.left = static_cast<int>(layer.window.padding[1]);
  w.dilation_y = static_cast<int>(layer.window.dilations[0]);
  w.dilation_x = static_cast<int>(layer.window.dilations[1]);
  return w;
}

bool all_are(const int64_t* values, int count, int64_t expected) {
  return std::all_of(values, values + count, [&](int64_t value) { return value == expected; });
}

// A matrix product, or a convolution that is a matrix product on pixels.
bool is_product(const Layer& layer) {
  const Window& w = layer.window;
  return all_are(w.kernel, 2, 1) && all_are(w.strides, 2, 1) && all_are(w.padding, 4, 0);
}

FpgaLinear registers_of(const Layer& layer) {
  FpgaLinear r{};
  r.outputs = static_cast<int>(layer.weights().dims[0]);
  r.input_zero = zero_of(layer.input());
  r.residual_zero = layer.residual != nullptr ? zero_of(*layer.residual) : 0;
  r.residual_shift = layer.residual_shift;
  r.rescale = rescale_of(layer.requant);
  r.by_channel = is_depthwise(layer);
  r.product = !r.by_channel && is_product(layer);
  r.computed = packs_in_each_run(layer);
  r.weight_bits = layer.weights().bits;
  r.images = 1;
  r.pixels = layer.output().elements / r.outputs;
  r.input_pitch = layer.input().pitch;
  r.residual_pitch = layer.residual != nullptr ? layer.residual->pitch : 0;
  r.result_pitch = layer.output().pitch * bytes_of(layer.output().storage);
  r.live = layer.live.empty() ? nullptr : layer.live.data();
  if (r.product) {
    r.window.channels = static_cast<int>(products_of(layer));
  } else {
    r.window = window_of(layer);
    r.images = static_cast<int>(layer.input().dims[0]);
    r.pixels /= r.images;
  }
  return r;
}

const char* check_extents(const Layer& layer) {
  for (const Tensor* tensor : {&layer.input(), &layer.output()})
    if (std::any_of(tensor->dims, tensor->dims + MAX_RANK,
                    [](int64_t extent) { return extent > FPGA_MAX_EXTENT; }))
      return "a dimension exceeds the FPGA's counters";
  return nullptr;
}

// Check the storage of operands and results. Copies support all storages.
const char* check_numbers(const Layer& layer) {
  for (const Tensor* operand : layer.operands) {
    if (operand == layer.bias || operand == layer.multipliers) continue;
    if (operand->storage != Storage::I8) return "the FPGA requires int8";
  }
  const Tensor& out = layer.output();
  if (out.storage != Storage::I8 && layer.table == nullptr) return "results of the FPGA are int8";
  if (!layer.has_requant) return nullptr;
  const Requant& r = layer.requant;
  if ((r.rounding != Rounding::HalfUp && r.rounding != Rounding::HalfEven) ||
      r.shift > FPGA_MAX_SHIFT)
    return "the FPGA rounds half up or half to even, with a shift of at most 47";
  if (r.zero_point < low_of(Storage::I8) || r.zero_point > high_of(Storage::I8))
    return "the FPGA adds a zero point of int8";
  if (layer.operation->circuit == Circuit::Pool) return nullptr;
  const int64_t channels = layer.multipliers != nullptr ? layer.multipliers->elements : 1;
  for (int64_t o = 0; o < channels; ++o) {
    const int64_t multiplier = multiplier_of(layer, o);
    if (!is_power_of_two(multiplier) || log2_of(multiplier) - r.shift > FPGA_MAX_LEFT_SHIFT)
      return "the FPGA requantizes by a shift";
  }
  return nullptr;
}

FpgaTables tables_of(const Layer& layer) {
  return {layer.table_entries, layer.table_rows,
          static_cast<int>(bytes_of(layer.output().storage))};
}

const int8_t* residual_of(const Layer& layer) {
  return layer.residual != nullptr ? bytes_at(*layer.residual) : nullptr;
}

void run_array(const Layer& layer, Scratch& scratch) {
  const FpgaLinear registers = registers_of(layer);
  const int8_t *input = bytes_at(layer.input()), *residual = residual_of(layer);
  const int8_t* weights = layer.packed;
  const int32_t* constants = layer.constants;
  if (registers.computed) {
    cpu_reads(layer.weights());
    int32_t* own = reinterpret_cast<int32_t*>(scratch.base);
    put_constants(layer, own);
    weights = bytes_at(layer.weights());
    constants = own;
  }
  if (fpga_circuits != nullptr &&
      fpga_circuits->linear(&layer, registers, input, weights, constants, layer.shifts,
                            tables_of(layer), residual, result_of(layer)))
    return;
  cpu_uses(layer);
  if (registers.computed) {
    int8_t* packed = reinterpret_cast<int8_t*>(scratch.base + constant_bytes(layer));
    std::memset(packed, 0, static_cast<size_t>(packed_bytes(layer)));
    put_weights(layer, packed);
    weights = packed;
  }
  if (registers.by_channel)
    fpga_depthwise_circuit(registers, input, weights, constants, layer.shifts, tables_of(layer),
                           residual, result_of(layer));
  else
    fpga_linear_circuit(registers, input, weights, constants, layer.shifts, tables_of(layer),
                        residual, result_of(layer), *scratch.fpga);
}

void run_pool(const Layer& layer, Scratch&) {
  const Requant& r = layer.requant;
  const FpgaPool registers{window_of(layer),
                           static_cast<int>(layer.input().dims[0]),
                           layer.attributes[0] == POOL_AVERAGE,
                           zero_of(layer.input()),
                           static_cast<int>(r.multiplier),
                           r.shift,
                           r.rounding == Rounding::HalfEven,
                           static_cast<int>(r.zero_point),
                           static_cast<int>(r.low),
                           static_cast<int>(r.high),
                           layer.input().pitch,
                           layer.output().pitch};
  const int8_t* input = bytes_at(layer.input());
  if (fpga_circuits != nullptr &&
      fpga_circuits->pool(&layer, registers, input, result_of(layer)))
    return;
  cpu_uses(layer);
  fpga_pool_circuit(registers, input, result_of(layer));
}

void run_adder(const Layer& layer, Scratch&) {
  const Tensor &lhs = *layer.operands[0], &rhs = *layer.operands[1], &out = layer.output();
  const bool gaps = lhs.has_gaps() || rhs.has_gaps() || out.has_gaps();
  const int64_t length = gaps ? out.row : out.elements;
  const FpgaAdd registers{zero_of(lhs),
                          zero_of(rhs),
                          static_cast<int>(layer.attributes[1]),
                          static_cast<int>(layer.attributes[2]),
                          rescale_of(layer.requant),
                          out.elements / length,
                          length,
                          lhs.pitch,
                          rhs.pitch,
                          out.pitch};
  if (fpga_circuits != nullptr &&
      fpga_circuits->add(&layer, registers, bytes_at(lhs), bytes_at(rhs), result_of(layer)))
    return;
  cpu_uses(layer);
  fpga_add_circuit(registers, bytes_at(lhs), bytes_at(rhs), result_of(layer));
}

void run_lookup(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const FpgaLookup registers{out.elements / out.row, static_cast<int>(out.row), in.pitch,
                             out.pitch * bytes_of(out.storage)};
  const FpgaTables tables = tables_of(layer);
  const int8_t* input = bytes_at(in);
  if (fpga_circuits != nullptr &&
      fpga_circuits->lookup(&layer, registers, tables, input, result_of(layer)))
    return;
  cpu_uses(layer);
  fpga_lookup_circuit(registers, tables, input, result_of(layer));
}

void run_moves(const Layer& layer, Scratch&) {
  if (!moves_any(layer)) return;
  const std::vector<FpgaBox> boxes = fpga_boxes_of(layer);
  if (fpga_circuits != nullptr && fpga_circuits->move(&layer, boxes)) return;
  cpu_uses(layer);
  for (const FpgaBox& box : boxes) fpga_move_circuit(box.move, box.input, box.result);
}

const char* check_tables(const Layer& layer) {
  return distinct_tables(layer).size() > static_cast<size_t>(FPGA_MAX_TABLES)
             ? "the number of tables exceeds that of the FPGA"
             : nullptr;
}

}  // namespace

const char* check_fpga_layer(const Layer& layer) {
  const Window& w = layer.window;
  if (const char* reason = check_extents(layer)) return reason;
  if (layer.operation->circuit == Circuit::Mover) return check_fpga_move(layer);
  if (const char* reason = check_numbers(layer)) return reason;
  if (const char* reason = check_tables(layer)) return reason;
  switch (layer.operation->circuit) {
    case Circuit::Array:
      if (layer.groups != 1 && !is_depthwise(layer))
        return "the FPGA requires depthwise convolutions or a single group";
      if (!layer.weights().constant() && layer.weights().rank != 2)
        return "the FPGA requires constant weights of a convolution";
      if (layer.weights().zero_point != 0) return "the FPGA requires weights without zero point";
      if (layer.weights().dims[0] > FPGA_MAX_EXTENT || products_of(layer) > FPGA_MAX_PATCH)
        return "the weights exceed the FPGA's counters";
      if (layer.groups == 1 && !is_product(layer) && ((w.kernel[0] - 1) * w.dilations[0] + 1) * layer.input().dims[2] *
                                        layer.input().dims[3] > FPGA_LINE_BYTES)
        return "the rows exceed the FPGA's line buffer";
      return nullptr;
    case Circuit::Pool: {
      const bool padded =
          std::any_of(w.padding, w.padding + 4, [](int64_t pad) { return pad != 0; });
      if (layer.attributes[0] == POOL_AVERAGE && padded && layer.attributes[11] == 0)
        return "the FPGA divides all windows by the same number";
      if (w.kernel[0] * w.kernel[1] > FPGA_MAX_TAPS) return "the window exceeds the FPGA's adder";
      return nullptr;
    }
    case Circuit::Adder:
      if (layer.attributes.size() != 3) return "the FPGA shifts the operands of a sum";
      if (layer.attributes[0] != BINARY_ADD) return "the FPGA only adds";
      if (layer.operands[0]->elements != layer.output().elements ||
          layer.operands[1]->elements != layer.output().elements)
        return "the FPGA adds tensors of equal shape";
      return nullptr;
    case Circuit::Table:
      return nullptr;
    default:
      return "the FPGA has no circuit for this operation";
  }
}

void cpu_reads(const Tensor& tensor) {
  if (fpga_circuits != nullptr && !tensor.constant())
    fpga_circuits->cpu_uses(tensor.data, tensor.extent, CpuUse::Reads);
}

void cpu_writes(const Tensor& tensor) {
  if (fpga_circuits != nullptr)
    fpga_circuits->cpu_uses(tensor.data, tensor.extent,
                            tensor.has_gaps() ? CpuUse::WritesSome : CpuUse::WritesAll);
}

void cpu_uses(const Layer& layer) {
  for (const Tensor* operand : layer.operands) cpu_reads(*operand);
  cpu_writes(layer.output());
}

Run fpga_operator_of(const Layer& layer) {
  switch (layer.operation->circuit) {
    case Circuit::Pool:
      return run_pool;
    case Circuit::Adder:
      return run_adder;
    case Circuit::Mover:
      return run_moves;
    case Circuit::Table:
      return run_lookup;
    default:
      return run_array;
  }
}

}  // namespace ceras
