// The circuits of the FPGA side, in the C++ that synthesis tools take.
//
// Static bounds, local buffers of fixed size, no allocation, no recursion, no virtual call, no
// float. A circuit sees shared memory through pointers and the rest through registers, which
// the host fills once per layer. On a PC the same code is the simulation.
#pragma once

#include <cstdint>

namespace ceras {

// What a circuit is built for; ceras_ir/backends/nnet/rules.py has the same numbers.
constexpr int FPGA_LANES = 16;        // output channels, and pixels, computed together
constexpr int FPGA_MAX_PATCH = 8192;  // products per output: kernel height x width x channels
constexpr int FPGA_MAX_SHIFT = 47;
constexpr int FPGA_MAX_LEFT_SHIFT = 8;
constexpr int FPGA_MAX_TAPS = 65536;  // of a pooling window
constexpr int FPGA_MAX_EXTENT = 32768;  // of each dimension of a feature map

// clamp((acc << left) >> right), the right shift rounding half up.
struct FpgaRescale {
  int left;
  int right;
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

struct FpgaLinear {
  FpgaWindow window;
  int images;
  int outputs;
  int residual_shift;
  FpgaRescale rescale;
};

struct FpgaPool {
  FpgaWindow window;
  int images;
  bool average;
  int multiplier;  // fixed-point reciprocal of the average
  int shift;
  int low;
  int high;
};

struct FpgaAdd {
  int lhs_shift;
  int rhs_shift;
  FpgaRescale rescale;
};

// Block RAM of the multiplier array. Lanes are 16 bits wide only because PCs multiply such
// vectors best: every number in them is an int8.
struct FpgaBuffers {
  alignas(64) int16_t patches[FPGA_LANES][FPGA_MAX_PATCH];
  alignas(64) int16_t weights[FPGA_LANES][FPGA_MAX_PATCH];
  alignas(64) int32_t sums[FPGA_LANES][FPGA_LANES];
};

// `bias` and `residual` may be null.
void fpga_linear_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                         const int32_t* bias, const int8_t* residual, int8_t* result,
                         FpgaBuffers& buffers);
void fpga_pool_circuit(const FpgaPool& layer, const int8_t* input, int8_t* result);
void fpga_add_circuit(const FpgaAdd& layer, int64_t elements, const int8_t* lhs, const int8_t* rhs,
                      int8_t* result);

}  // namespace ceras
