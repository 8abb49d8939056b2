// A loaded model: tensors with resolved addresses, and layers with operators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "format.h"

namespace ceras {

struct Tensor {
  const char* name = "";
  Storage storage = Storage::F32;
  uint32_t rank = 0;
  int64_t dims[MAX_RANK] = {};
  int64_t elements = 0;
  int64_t bytes = 0;   // of the elements
  int64_t extent = 0;  // from the first to the last byte, including gaps
  int64_t row = 1;     // elements of a row (the last dimension)
  int64_t pitch = 1;   // elements from row to row
  int bits = 8;        // of an integer of a constant in the file; 2 or 4 if it is packed
  float scale = 0;
  int64_t zero_point = 0;
  const uint8_t* data = nullptr;
  uint8_t* target = nullptr;  // null for constants

  bool quantized() const { return storage != Storage::F32; }
  bool constant() const { return target == nullptr; }
  // Whether the tensor consists of columns of a wider value, with other elements between rows.
  bool has_gaps() const { return pitch != row; }
  const float* floats() const { return reinterpret_cast<const float*>(data); }
  float* float_target() const { return reinterpret_cast<float*>(target); }
};

inline int64_t bytes_of(Storage storage) {
  switch (storage) {
    case Storage::I8:
    case Storage::U8:
    case Storage::Bool:
      return 1;
    case Storage::I16:
    case Storage::U16:
      return 2;
    case Storage::I64:
      return 8;
    default:
      return 4;
  }
}

// Call `body` with an integer of the width of `storage`.
template <class Body>
inline void with_word(Storage storage, Body body) {
  switch (bytes_of(storage)) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 8:
      return body(uint64_t{});
    default:
      return body(uint32_t{});
  }
}

// Call `body` with an integer of the type of `storage`.
template <class Body>
inline void with_integer(Storage storage, Body body) {
  switch (storage) {
    case Storage::I8:
      return body(int8_t{});
    case Storage::U8:
      return body(uint8_t{});
    case Storage::I16:
      return body(int16_t{});
    case Storage::U16:
      return body(uint16_t{});
    case Storage::I64:
      return body(int64_t{});
    default:
      return body(int32_t{});
  }
}

// The same, and with a float for float storage.
template <class Body>
inline void with_number(Storage storage, Body body) {
  if (storage == Storage::F32) return body(float{});
  with_integer(storage, body);
}

// Storages that quantized values cannot have.
inline bool is_only_plain(Storage storage) {
  return storage == Storage::I64 || storage == Storage::Bool;
}

inline bool same_shape(const Tensor& a, const Tensor& b) {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

// The strides of the dimensions in elements.
inline void strides_of(const Tensor& tensor, int64_t* strides) {
  int64_t elements = 1;
  for (uint32_t d = tensor.rank; d-- > 0;) {
    strides[d] = elements;
    elements = d + 1 == tensor.rank ? tensor.pitch : elements * tensor.dims[d];
  }
}

// The lowest and the highest stored integer.
inline int64_t low_of(Storage storage) {
  switch (storage) {
    case Storage::I8:
      return -128;
    case Storage::I16:
      return -32768;
    case Storage::I32:
      return INT32_MIN;
    default:
      return 0;
  }
}

inline int64_t high_of(Storage storage) {
  switch (storage) {
    case Storage::I8:
      return 127;
    case Storage::U8:
      return 255;
    case Storage::I16:
      return 32767;
    case Storage::U16:
      return 65535;
    default:
      return INT32_MAX;
  }
}

struct Requant {
  int64_t multiplier = 1;
  int shift = 0;
  Rounding rounding = Rounding::HalfUp;
  int64_t zero_point = 0;
  int64_t low = 0;
  int64_t high = 0;
};

struct Window {
  int64_t kernel[2] = {1, 1};
  int64_t strides[2] = {1, 1};
  int64_t padding[4] = {0, 0, 0, 0};  // top, left, bottom, right
  int64_t dilations[2] = {1, 1};
};

struct FpgaBuffers;

// Working memory of operators, allocated at load time.
struct Scratch {
  std::unique_ptr<uint8_t[]> storage;
  uint8_t* base = nullptr;  // aligned to 64 bytes
  std::unique_ptr<FpgaBuffers> fpga;
};

struct Layer;
struct Operation;
using Run = void (*)(const Layer&, Scratch&);

struct Layer {
  const Operation* operation = nullptr;
  Device device = Device::Cpu;
  const char* name = "";
  std::vector<const Tensor*> operands;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;
  const Tensor* multipliers = nullptr;  // per output channel
  const Tensor* result = nullptr;
  std::vector<uint32_t> attributes;
  Window window;       // of convolutions and pools
  int64_t groups = 1;  // of convolutions
  Function function = Function::None;
  float parameters[2] = {0, 0};
  bool has_requant = false;
  Requant requant;
  int residual_shift = 0;
  int64_t factors[2] = {1, 1};  // of the operands of `binary`
  const uint8_t* table = nullptr;
  std::vector<uint8_t> ordered;    // constants in the order of the kernel on the CPU
  std::vector<uint8_t> live;       // blocks of weights that are not all zero, see zero_blocks.h
  const int8_t* packed = nullptr;  // constant weights in the order of the FPGA's array
  const int32_t* constants = nullptr;  // per output channel on the FPGA, for constant weights
  const int8_t* shifts = nullptr;      // the same, if they differ
  std::vector<const uint8_t*> tables;  // addresses of index 0, for all channels or per channel
  const uint8_t* table_entries = nullptr;  // the different tables, in the format of the FPGA
  const uint8_t* table_rows = nullptr;     // the table of each channel, if they differ
  Run run = nullptr;

  const Tensor& input() const { return *operands[0]; }
  const Tensor& weights() const { return *operands[1]; }
  const Tensor& output() const { return *result; }
  // Whether sums are integers; a table may convert them to floats.
  bool quantized() const { return table != nullptr || output().quantized(); }
};

// An input or output of the network, with the name in the model of the user.
struct Border {
  const Tensor* tensor = nullptr;
  const char* name = "";
};

// A state, with the tensors from which a run reads it and to which it writes the next value.
struct State {
  const Tensor* input = nullptr;
  const Tensor* output = nullptr;
  std::unique_ptr<uint8_t[]> kept;
};

struct Model {
  std::vector<Tensor> tensors;
  std::vector<Border> inputs;  // states are the last inputs and outputs
  std::vector<Border> outputs;
  std::vector<State> states;
  std::vector<Layer> layers;
  std::unique_ptr<uint8_t, void (*)(void*)> arena{nullptr, nullptr};
  uint8_t* base = nullptr;  // first byte of the arena, aligned to a page
  std::vector<std::unique_ptr<uint8_t[]>> expanded;  // packed constants, a byte per integer
  std::unique_ptr<int8_t[]> packed;  // the weights of all layers on the FPGA
  std::unique_ptr<int32_t[]> constants;
  std::unique_ptr<int8_t[]> shifts;
  std::vector<uint8_t> tables;
  std::vector<uint8_t> table_rows;
  Scratch scratch;
};

// Set the rows of a tensor with a known shape. `pitch` is in bytes; 0 without gaps.
const char* lay_rows(Tensor& tensor, uint64_t pitch);

// Check overlap: a result may share bytes with an operand only if the operator permits it.
const char* check_overlap(const Layer& layer);

// Check a layer completely. Return null, or the fault.
const char* check_layer(const Layer& layer);
const char* check_fpga_layer(const Layer& layer);
const char* check_accumulator(const Layer& layer);

// Set the operator of a checked layer, and return the scratch bytes that it needs.
Run operator_of(const Layer& layer);
int64_t scratch_bytes(const Layer& layer);

// Pack the constants of checked layers on the FPGA: weights in the order of the array, which layers
// can share, and constants and shifts of output channels. Return false if memory is insufficient.
bool fpga_pack(Model& model);

}  // namespace ceras
