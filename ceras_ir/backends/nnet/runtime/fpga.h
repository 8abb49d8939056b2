// The circuits of the FPGA in C++, which define the results of the circuits in Verilog.
//
// They have static bounds and buffers of fixed size, no allocation and no floats. A circuit
// accesses shared memory through pointers. The host writes the registers for each layer.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lanes.h"

namespace ceras {

// The sizes of the circuits. ceras_ir/backends/nnet/rules.py reads these numbers.
constexpr int FPGA_MBLOCK = 256;  // output pixels that share a load of the weights
constexpr int FPGA_KBLOCK = 512;  // products per pixel and step
constexpr int FPGA_NBLOCK = 256;  // output channels that share a load of the pixels
constexpr int FPGA_BURST = 256;   // bytes that the adder loads in a step
constexpr int FPGA_LINE_BYTES = 262144;  // rows of the input on chip
constexpr int FPGA_MAX_PATCH = 65536;   // products per output
constexpr int FPGA_MAX_SHIFT = 47;
constexpr int FPGA_MAX_LEFT_SHIFT = 8;
constexpr int FPGA_MAX_TAPS = 65536;    // of a pooling window
constexpr int FPGA_MAX_EXTENT = 32768;  // of each dimension of a feature map
constexpr int FPGA_MAX_TABLES = 16;     // per layer
constexpr int FPGA_MAX_RANK = 5;        // of copied tensors
constexpr int FPGA_BOX = 6;  // dimensions of a box; a resize has two for rows and two for columns

// clamp((acc << left) + zero_point) or clamp((acc >> right) + zero_point). One of the shifts is
// zero. Rounding is half up, or `to_even`.
struct FpgaRescale {
  int left;
  int right;
  bool to_even;
  int zero_point;
  int low;
  int high;
};

struct FpgaWindow {
  int height, width, channels;  // of the input
  int rows, columns;            // of the result
  int kernel_height, kernel_width;
  int stride_y, stride_x;
  int top, left;
  int dilation_y, dilation_x;
};

// A matrix product has `pixels` rows of `window.channels` elements; the other fields of the window
// are undefined. `by_channel`: depthwise, each output has a single channel.
struct FpgaLinear {
  FpgaWindow window;
  int images;
  int64_t pixels;  // of an image
  bool product;
  bool by_channel;
  bool computed;  // weights and constants change in each run
  int weight_bits = 8;  // 4 or 2 if they hold all weights
  int outputs;
  int input_zero;  // the value of padding
  int residual_zero;
  int residual_shift;  // for channels with the shift of the requantization
  FpgaRescale rescale;
  // Bytes from pixel to pixel, which exceed the channels if there are other values between.
  int64_t input_pitch;
  int64_t residual_pitch;
  int64_t result_pitch;
  // For each block of 16 output channels and 16 products, whether a weight is not zero; null if all
  // blocks have nonzero weights.
  const uint8_t* live;
};

struct FpgaPool {
  FpgaWindow window;
  int images;
  bool average;  // the next fields up to `high` are for averages
  int input_zero;
  int multiplier;  // fixed-point reciprocal
  int shift;
  bool to_even;
  int zero_point;
  int low;
  int high;
  int64_t input_pitch;
  int64_t result_pitch;
};

// Without gaps, there is a single row.
struct FpgaAdd {
  int lhs_zero;
  int rhs_zero;
  int lhs_shift;
  int rhs_shift;
  FpgaRescale rescale;
  int64_t rows;
  int64_t length;  // elements per row
  int64_t lhs_pitch;
  int64_t rhs_pitch;
  int64_t result_pitch;
};

// Concatenated tables of 256 entries: entry `stored + 128` is the result. Each lane has a copy.
struct FpgaTables {
  const uint8_t* entries;  // null without tables
  const uint8_t* rows;     // the table of each channel; null if all have the first
  int entry_bytes;         // 1, or 4 for floats
};

// A copy of a box of elements, with strides in bytes: slices, transposed tensors, operands of a
// concatenation, and repeated rows.
struct FpgaMove {
  int dims[FPGA_BOX];
  int64_t from[FPGA_BOX];
  int64_t to[FPGA_BOX];
  int unit;  // bytes of an element
};

// A box, and the first element in input and result.
struct FpgaBox {
  FpgaMove move;
  const int8_t* input;
  int8_t* result;
};

struct FpgaLookup {
  int64_t rows;
  int channels;
  int64_t input_pitch;
  int64_t result_pitch;
};

// Block RAM of the linear circuit.
struct FpgaBuffers {
  alignas(64) int8_t lines[FPGA_LINE_BYTES];
  alignas(64) Number input[FPGA_MBLOCK * FPGA_KBLOCK];
  alignas(64) Weight weights[FPGA_KBLOCK * LANES];
  alignas(64) int32_t sums[FPGA_NBLOCK / LANES][FPGA_MBLOCK * LANES];
};

// The bytes of weights in the order of the array: for 16 output channels, group after group of
// products, and in each group all 16 channels. Weights are padded with zeros.
constexpr int64_t fpga_weight_bytes(int64_t outputs, int64_t products) {
  return (outputs + LANES - 1) / LANES * ((products + GROUP - 1) / GROUP) * LANES * GROUP;
}

// Pack weights [outputs][products] in that order: at load time, or before each run if weights are
// computed. `packed` must be zero before.
inline void fpga_pack_weights(const int8_t* weights, int64_t outputs, int64_t products,
                              int8_t* packed) {
  for (int64_t o = 0; o < outputs; ++o) {
    int8_t* tile = packed + fpga_weight_bytes(o / LANES * LANES, products) + o % LANES * GROUP;
    for (int64_t k = 0; k < products; ++k)
      tile[k / GROUP * LANES * GROUP + k % GROUP] = weights[o * products + k];
  }
}

// Pack weights [channels][taps] so that the weights of a tap are contiguous.
inline void fpga_pack_depthwise(const int8_t* weights, int64_t channels, int64_t taps,
                                int8_t* packed) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < taps; ++k) packed[k * channels + c] = weights[c * taps + k];
}

// The constants that the circuit adds to the sum of each output channel: the bias, or 0 if null,
// minus the zero point of the input in all products, including padding. If sums of elements minus
// zero points fit 32 bits, the constants and all partial sums fit, too: the magnitudes of the zero
// point and of an element do not exceed the largest distance from the zero point to a bound of the
// range.
inline void fpga_channel_constants(const int8_t* weights, int64_t outputs, int64_t products,
                                   const int32_t* bias, int input_zero, int32_t* constants) {
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t sum = 0;
    for (int64_t k = 0; input_zero != 0 && k < products; ++k) sum += weights[o * products + k];
    constants[o] = static_cast<int32_t>((bias != nullptr ? bias[o] : 0) - input_zero * sum);
  }
}

// `weights` have the order of the array; `constants` and `shifts` are per output channel. `shifts`
// may be null; otherwise they replace the right shift of the requantization (negative: to the
// left), and the residual shift changes by the same difference. `residual` may be null, or equal
// `result`. The requantized values are looked up in `tables`, if any.
void fpga_linear_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                         const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                         const int8_t* residual, int8_t* result, FpgaBuffers& buffers);
// The same for depthwise convolutions, with `weights` in the order of `fpga_pack_depthwise`.
void fpga_depthwise_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                            const int32_t* constants, const int8_t* shifts,
                            const FpgaTables& tables, const int8_t* residual, int8_t* result);
void fpga_pool_circuit(const FpgaPool& layer, const int8_t* input, int8_t* result);
// `result` may be the bytes of `lhs` or `rhs`.
void fpga_add_circuit(const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs, int8_t* result);
// Copy a box with the first element at `input` to `result`. The two must not overlap.
void fpga_move_circuit(const FpgaMove& move, const int8_t* input, int8_t* result);
// `result` may be the bytes of `input` if entries are bytes.
void fpga_lookup_circuit(const FpgaLookup& layer, const FpgaTables& tables, const int8_t* input,
                         int8_t* result);

// Hardware is missing, does not respond, or ends a launch with an error.
struct FpgaError : std::runtime_error {
  explicit FpgaError(const std::string& reason, size_t at = 0)
      : std::runtime_error(reason), launch(at) {}
  size_t launch;  // the number of the layer in a queue
  const void* layer = nullptr;  // null: the layer that was called last
};

// The use of bytes by the CPU: read, write some bytes, or write all bytes.
enum class CpuUse : uint8_t { Reads, WritesSome, WritesAll };

// Hardware or a simulation that executes layers of the FPGA instead of the circuits above. `layer`
// identifies a layer in all runs. If a function returns false, the circuit in C++ is used.
class FpgaCircuits {
 public:
  virtual ~FpgaCircuits() = default;
  // `weights` have the order of the circuit in C++. Computed weights are [outputs][products] and
  // may be in the caches of the CPU.
  virtual bool linear(const void* layer, const FpgaLinear& registers, const int8_t* input,
                      const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                      const FpgaTables& tables, const int8_t* residual, int8_t* result) = 0;
  virtual bool pool(const void* layer, const FpgaPool& registers, const int8_t* input,
                    int8_t* result) = 0;
  virtual bool add(const void* layer, const FpgaAdd& registers, const int8_t* lhs,
                   const int8_t* rhs, int8_t* result) = 0;
  virtual bool lookup(const void* layer, const FpgaLookup& registers, const FpgaTables& tables,
                      const int8_t* input, int8_t* result) = 0;
  // All boxes that a layer copies.
  virtual bool move(const void* layer, const std::vector<FpgaBox>& boxes) = 0;
  // Layers between these calls are planned but not executed.
  virtual void begin_planning() = 0;
  virtual void end_planning() = 0;
  // Zeroed memory for an arena of `bytes`, aligned to a page; null if any memory is suitable.
  virtual uint8_t* arena(uint64_t) { return nullptr; }
  // Prepare the use of bytes by the CPU that the device may have written.
  virtual void cpu_uses(const void*, int64_t, CpuUse) {}
};
extern FpgaCircuits* fpga_circuits;  // null: use the circuits in C++

// Values of more than 15 bits reach the clamp for all shifts up to one bit to the right.
constexpr int32_t FPGA_WIDE = 1 << 15;

// Round, add the zero point and clamp, after the shift.
inline int32_t fpga_clamp(int32_t value, const FpgaRescale& r) {
  const int32_t moved = value + r.zero_point;
  return moved < r.low ? r.low : moved > r.high ? r.high : moved;
}

// Requantize `count` sums of 32 bits in 32-bit arithmetic.
inline void fpga_rescale_all(int32_t* acc, int count, const FpgaRescale& registers) {
  // A copy, because written sums might alias the registers.
  const FpgaRescale r = registers;
  // floor((acc + half) / 2^right) without this sum, which might need 33 bits.
  const int floor = r.right < 31 ? r.right : 31, last = r.right < 32 ? r.right - 1 : 31;
  if (r.right == 0) {
    for (int i = 0; i < count; ++i) {
      const int32_t near =
          acc[i] < -FPGA_WIDE ? -FPGA_WIDE : acc[i] > FPGA_WIDE ? FPGA_WIDE : acc[i];
      acc[i] = fpga_clamp(near * (1 << r.left), r);
    }
  } else if (r.to_even) {
    // Only odd values are rounded up at a tie.
    const int32_t below = static_cast<int32_t>((uint32_t{1} << last) - 1);
    for (int i = 0; i < count; ++i) {
      const int32_t whole = acc[i] >> floor, up = (acc[i] & below) != 0 ? 1 : whole;
      acc[i] = fpga_clamp(whole + ((acc[i] >> last) & up & 1), r);
    }
  } else {
    for (int i = 0; i < count; ++i)
      acc[i] = fpga_clamp((acc[i] >> floor) + ((acc[i] >> last) & 1), r);
  }
}

}  // namespace ceras
