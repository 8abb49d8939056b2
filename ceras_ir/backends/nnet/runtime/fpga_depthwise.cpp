// Depthwise convolution: 16 channels in parallel, with a tap of each per step.
#include "fpga_epilogue.h"

namespace ceras {
namespace {

int at_most(int value, int limit) { return value < limit ? value : limit; }

// The sums of up to 16 channels of `pixels` pixels of a row, from `column`.
void sum_taps(const FpgaLinear& layer, const int8_t* image, const int8_t* weights, int row,
              int column, int pixels, int channel, int lanes, int32_t* sums) {
  const FpgaWindow& w = layer.window;
  const int outside = layer.input_zero;
  for (int i = 0; i < pixels * LANES; ++i) sums[i] = 0;
  for (int i = 0; i < w.kernel_height; ++i)
    for (int j = 0; j < w.kernel_width; ++j) {
      const int8_t* tap =
          weights + (static_cast<int64_t>(i) * w.kernel_width + j) * layer.outputs + channel;
      int32_t factors[LANES] = {};
      for (int lane = 0; lane < lanes; ++lane) factors[lane] = tap[lane];
      const int y = row * w.stride_y - w.top + i * w.dilation_y;
      const bool above = y < 0 || y >= w.height;
      for (int p = 0; p < pixels; ++p) {
        const int x = (column + p) * w.stride_x - w.left + j * w.dilation_x;
        int32_t* to = sums + p * LANES;
        if (above || x < 0 || x >= w.width) {
          for (int lane = 0; lane < LANES; ++lane) to[lane] += outside * factors[lane];
          continue;
        }
        const int8_t* from =
            image + (static_cast<int64_t>(y) * w.width + x) * layer.input_pitch + channel;
        for (int lane = 0; lane < lanes; ++lane) to[lane] += from[lane] * factors[lane];
      }
    }
}

}  // namespace

void fpga_depthwise_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                            const int32_t* constants, const int8_t* shifts,
                            const FpgaTables& tables, const int8_t* residual, int8_t* result) {
  const FpgaWindow& w = layer.window;
  const FpgaEnd end{layer.rescale, layer.residual_zero, layer.residual_shift, layer.residual_pitch,
                    layer.result_pitch};
  for (int image = 0; image < layer.images; ++image) {
    const int8_t* at = input + static_cast<int64_t>(image) * w.height * w.width * layer.input_pitch;
    for (int row = 0; row < w.rows; ++row)
      for (int column = 0; column < w.columns; column += FPGA_MBLOCK) {
        const int pixels = at_most(w.columns - column, FPGA_MBLOCK);
        const int64_t first = (static_cast<int64_t>(image) * w.rows + row) * w.columns + column;
        for (int channel = 0; channel < layer.outputs; channel += LANES) {
          const int lanes = at_most(layer.outputs - channel, LANES);
          int32_t sums[FPGA_MBLOCK * LANES];
          sum_taps(layer, at, weights, row, column, pixels, channel, lanes, sums);
          fpga_finish(end, pixels, channel, lanes, constants, shifts, tables,
                      residual != nullptr ? residual + first * layer.residual_pitch : nullptr,
                      result + first * layer.result_pitch, sums);
        }
      }
  }
}

}  // namespace ceras
