// The circuits of the FPGA side in C++: what those in Verilog are held to, byte by byte.
//
// Static bounds, buffers of fixed size, no allocation, no float. A circuit sees shared memory
// through pointers and the rest through registers, which the host fills once per layer.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"

namespace ceras {

// What a circuit is built for; ceras_ir/backends/nnet/rules.py reads these numbers.
constexpr int FPGA_MBLOCK = 256;  // output pixels that share a reading of the weights
constexpr int FPGA_KBLOCK = 512;  // products of each at a time
constexpr int FPGA_NBLOCK = 256;  // output channels that share a reading of the pixels
constexpr int FPGA_BURST = 256;   // bytes that the adder reads at a time
constexpr int FPGA_LINE_BYTES = 262144;  // rows of the input on chip
constexpr int FPGA_MAX_PATCH = 65536;   // products of one output
constexpr int FPGA_MAX_SHIFT = 47;
constexpr int FPGA_MAX_LEFT_SHIFT = 8;
constexpr int FPGA_MAX_TAPS = 65536;    // of a pooling window
constexpr int FPGA_MAX_EXTENT = 32768;  // of each dimension of a feature map
constexpr int FPGA_MAX_TABLES = 16;     // of one layer
constexpr int FPGA_MAX_RANK = 5;        // of what is moved
constexpr int FPGA_BOX = 6;  // dimensions of a box: a resize has rows and columns twice

// clamp((acc << left) + zero_point) or clamp((acc >> right) + zero_point), of whose shifts one is
// zero; rounding half up, or `to_even`.
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

// Of a product, `pixels` rows of `window.channels` numbers lie one after the other, and the
// rest of the window has no meaning. `by_channel`: depthwise, each output is of one channel.
struct FpgaLinear {
  FpgaWindow window;
  int images;
  int64_t pixels;  // of one image
  bool product;
  bool by_channel;
  bool computed;  // weights and constants are others in each run
  int outputs;
  int input_zero;  // what surrounds the input
  int residual_zero;
  int residual_shift;  // of channels that are shifted as the rescaling says
  FpgaRescale rescale;
  // Bytes from one pixel to the next: more than its channels where other values lie between.
  int64_t input_pitch;
  int64_t residual_pitch;
  int64_t result_pitch;
  // Of each 16 output channels, and of each 16 products of them, whether a weight is not zero;
  // null where all blocks have such weights.
  const uint8_t* live;
};

struct FpgaPool {
  FpgaWindow window;
  int images;
  bool average;  // what follows up to `high` is of averages
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

// Of numbers without gaps there is one row.
struct FpgaAdd {
  int lhs_zero;
  int rhs_zero;
  int lhs_shift;
  int rhs_shift;
  FpgaRescale rescale;
  int64_t rows;
  int64_t length;  // numbers of a row
  int64_t lhs_pitch;
  int64_t rhs_pitch;
  int64_t result_pitch;
};

// Tables of 256 entries, one after the other: entry `stored + 128` is the result. Every lane has a
// copy of them.
struct FpgaTables {
  const uint8_t* entries;  // null where there are none
  const uint8_t* rows;     // which table each channel has; null where all have the first
  int entry_bytes;         // 1, or 4 for floats
};

// A box of elements from and to anywhere, in bytes from one to the next of each dimension: slices
// and transposed tensors, operands of a concatenation, and rows that are read several times.
struct FpgaMove {
  int dims[FPGA_BOX];
  int64_t from[FPGA_BOX];
  int64_t to[FPGA_BOX];
  int unit;  // bytes of an element
};

// What is moved, and its first element before and after.
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

// Bytes of weights in the order of the array: 16 output channels, group after group of products,
// and of each group all 16 channels. What a layer has less of is zero.
constexpr int64_t fpga_weight_bytes(int64_t outputs, int64_t products) {
  return (outputs + LANES - 1) / LANES * ((products + GROUP - 1) / GROUP) * LANES * GROUP;
}

// Weights [outputs][products] in that order; the host does it once, or before each run of a layer
// whose weights are computed. `packed` is zero before.
inline void fpga_pack_weights(const int8_t* weights, int64_t outputs, int64_t products,
                              int8_t* packed) {
  for (int64_t o = 0; o < outputs; ++o) {
    int8_t* tile = packed + fpga_weight_bytes(o / LANES * LANES, products) + o % LANES * GROUP;
    for (int64_t k = 0; k < products; ++k)
      tile[k / GROUP * LANES * GROUP + k % GROUP] = weights[o * products + k];
  }
}

// Weights [channels][taps] so that those of a tap lie side by side.
inline void fpga_pack_depthwise(const int8_t* weights, int64_t channels, int64_t taps,
                                int8_t* packed) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < taps; ++k) packed[k * channels + c] = weights[c * taps + k];
}

// What the circuit adds to the sum of each output channel: the bias, or 0 where that is null, less
// the input's zero point in all products, padding's too. It has 32 bits where sums of numbers less
// their zero points have, and so have they all on the way: a zero point, and a number, is never
// further from zero than the farther end of the range is from the zero point.
inline void fpga_channel_constants(const int8_t* weights, int64_t outputs, int64_t products,
                                   const int32_t* bias, int input_zero, int32_t* constants) {
  for (int64_t o = 0; o < outputs; ++o) {
    int64_t sum = 0;
    for (int64_t k = 0; input_zero != 0 && k < products; ++k) sum += weights[o * products + k];
    constants[o] = static_cast<int32_t>((bias != nullptr ? bias[o] : 0) - input_zero * sum);
  }
}

// `weights` in the order of the array, `constants` of each output channel. `shifts` may be null;
// otherwise they are what each output channel is shifted by to the right, to the left where less
// than zero, and not what the rescaling says; a residual then keeps its distance from its sum. `residual` may be null; it and `result` may be the
// same bytes. What the rescaling makes is looked up in `tables`, if there are any.
void fpga_linear_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                         const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                         const int8_t* residual, int8_t* result, FpgaBuffers& buffers);
// The same by channel: no product, as many channels as outputs, and `weights` in the order of
// `fpga_pack_depthwise`.
void fpga_depthwise_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                            const int32_t* constants, const int8_t* shifts,
                            const FpgaTables& tables, const int8_t* residual, int8_t* result);
void fpga_pool_circuit(const FpgaPool& layer, const int8_t* input, int8_t* result);
// `result` may be the bytes of `lhs` or `rhs`.
void fpga_add_circuit(const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs, int8_t* result);
// The first element of the box is at `input`, and goes to `result`; the two do not overlap.
void fpga_move_circuit(const FpgaMove& move, const int8_t* input, int8_t* result);
// `result` may be the bytes of `input` where entries are bytes.
void fpga_lookup_circuit(const FpgaLookup& layer, const FpgaTables& tables, const int8_t* input,
                         int8_t* result);

// Hardware that is not there, or does not answer.
struct FpgaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the CPU does with bytes: read them, write some of them, or write each of them.
enum class CpuUse : uint8_t { Reads, WritesSome, WritesAll };

// What runs the layers of the FPGA's side in the place of the circuits above: hardware, or its
// simulation. `layer` tells layers apart and is the same in each run. False: the circuit in C++ has
// to run it.
class FpgaCircuits {
 public:
  virtual ~FpgaCircuits() = default;
  // `weights` in the order that the circuit in C++ takes, of all channels or by channel; computed
  // ones [outputs][products], which the CPU has in its caches.
  virtual bool linear(const void* layer, const FpgaLinear& registers, const int8_t* input,
                      const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                      const FpgaTables& tables, const int8_t* residual, int8_t* result) = 0;
  virtual bool pool(const void* layer, const FpgaPool& registers, const int8_t* input,
                    int8_t* result) = 0;
  virtual bool add(const void* layer, const FpgaAdd& registers, const int8_t* lhs,
                   const int8_t* rhs, int8_t* result) = 0;
  virtual bool lookup(const void* layer, const FpgaLookup& registers, const FpgaTables& tables,
                      const int8_t* input, int8_t* result) = 0;
  // All boxes that a layer moves.
  virtual bool move(const void* layer, const std::vector<FpgaBox>& boxes) = 0;
  // Layers that run in between are prepared and not run.
  virtual void begin_planning() = 0;
  virtual void end_planning() = 0;
  // Zeroed memory that they reach, at a page, for an arena of `bytes`; null: any will do.
  virtual uint8_t* arena(uint64_t) { return nullptr; }
  // The CPU is about to use what may have been written beside its caches.
  virtual void cpu_uses(const void*, int64_t, CpuUse) {}
};
extern FpgaCircuits* fpga_circuits;  // null: those in C++ run all

// What is beyond 15 bits ends at the clamp whatever the shift, to the right by one bit at most.
constexpr int32_t FPGA_WIDE = 1 << 15;

// What a rescaling does after its shift.
inline int32_t fpga_clamp(int32_t value, const FpgaRescale& r) {
  const int32_t moved = value + r.zero_point;
  return moved < r.low ? r.low : moved > r.high ? r.high : moved;
}

// `count` sums of 32 bits, rescaled in 32 bits and clamped.
inline void fpga_rescale_all(int32_t* acc, int count, const FpgaRescale& registers) {
  // Of its own: sums that are written might be the registers'.
  const FpgaRescale r = registers;
  // floor((acc + half) / 2^right) without that sum, which might need 33 bits.
  const int floor = r.right < 31 ? r.right : 31, last = r.right < 32 ? r.right - 1 : 31;
  if (r.right == 0) {
    for (int i = 0; i < count; ++i) {
      const int32_t near =
          acc[i] < -FPGA_WIDE ? -FPGA_WIDE : acc[i] > FPGA_WIDE ? FPGA_WIDE : acc[i];
      acc[i] = fpga_clamp(near * (1 << r.left), r);
    }
  } else if (r.to_even) {
    // A half goes up from odd numbers only.
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
