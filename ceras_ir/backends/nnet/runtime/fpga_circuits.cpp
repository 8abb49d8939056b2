#include "fpga.h"

namespace ceras {
namespace {

int8_t clamped(int64_t value, int low, int high) {
  return static_cast<int8_t>(value < low ? low : value > high ? high : value);
}

int64_t shifted(int64_t value, int shift) {
  const int64_t half = shift > 0 ? int64_t{1} << (shift - 1) : 0;
  return (value + half) >> shift;
}

int8_t rescaled(int64_t acc, const FpgaRescale& r) {
  return clamped(shifted(acc * (int64_t{1} << r.left), r.right), r.low, r.high);
}

// The input under one window into a patch, zeros where the padding is; returns its length.
void load_patch(const FpgaWindow& w, const int8_t* input, int64_t pixel, int16_t* patch) {
  const int64_t image = pixel / (static_cast<int64_t>(w.rows) * w.columns);
  const int top = static_cast<int>(pixel / w.columns % w.rows) * w.stride_y - w.top;
  const int left = static_cast<int>(pixel % w.columns) * w.stride_x - w.left;
  int at = 0;
  for (int i = 0; i < w.kernel_height; ++i)
    for (int j = 0; j < w.kernel_width; ++j, at += w.channels) {
      const int y = top + i * w.dilation_y, x = left + j * w.dilation_x;
      const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
      const int8_t* from =
          inside ? input + ((image * w.height + y) * w.width + x) * w.channels : nullptr;
      for (int c = 0; c < w.channels; ++c) patch[at + c] = inside ? from[c] : int16_t{0};
    }
}

// 16 pixels x 16 output channels; `blocks` vectors of 16 products each.
void multiply(FpgaBuffers& b, int blocks) {
  for (int p = 0; p < FPGA_LANES; ++p)
    for (int o = 0; o < FPGA_LANES; o += 4) {
      int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (int k = 0; k < blocks * FPGA_LANES; ++k) {
        const int32_t x = b.patches[p][k];
        s0 += x * b.weights[o][k];
        s1 += x * b.weights[o + 1][k];
        s2 += x * b.weights[o + 2][k];
        s3 += x * b.weights[o + 3][k];
      }
      b.sums[p][o] = s0;
      b.sums[p][o + 1] = s1;
      b.sums[p][o + 2] = s2;
      b.sums[p][o + 3] = s3;
    }
}

}  // namespace

void fpga_linear_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                         const int32_t* bias, const int8_t* residual, int8_t* result,
                         FpgaBuffers& b) {
  const FpgaWindow& w = layer.window;
  const int length = w.kernel_height * w.kernel_width * w.channels;
  const int blocks = (length + FPGA_LANES - 1) / FPGA_LANES;
  const int64_t pixels = static_cast<int64_t>(layer.images) * w.rows * w.columns;
  // Lanes past the end of the patch multiply by zero.
  for (int lane = 0; lane < FPGA_LANES; ++lane)
    for (int k = length; k < blocks * FPGA_LANES; ++k) b.patches[lane][k] = b.weights[lane][k] = 0;

  for (int64_t pixel = 0; pixel < pixels; pixel += FPGA_LANES) {
    const int active = pixels - pixel < FPGA_LANES ? static_cast<int>(pixels - pixel) : FPGA_LANES;
    for (int p = 0; p < active; ++p) load_patch(w, input, pixel + p, b.patches[p]);
    for (int first = 0; first < layer.outputs; first += FPGA_LANES) {
      const int rows = layer.outputs - first < FPGA_LANES ? layer.outputs - first : FPGA_LANES;
      for (int o = 0; o < rows; ++o)
        for (int k = 0; k < length; ++k)
          b.weights[o][k] = weights[static_cast<int64_t>(first + o) * length + k];
      multiply(b, blocks);
      for (int p = 0; p < active; ++p)
        for (int o = 0; o < rows; ++o) {
          const int64_t at = (pixel + p) * layer.outputs + first + o;
          int64_t acc = b.sums[p][o];
          if (bias != nullptr) acc += bias[first + o];
          if (residual != nullptr)
            acc += int64_t{residual[at]} * (int64_t{1} << layer.residual_shift);
          result[at] = rescaled(acc, layer.rescale);
        }
    }
  }
}

void fpga_pool_circuit(const FpgaPool& layer, const int8_t* input, int8_t* result) {
  const FpgaWindow& w = layer.window;
  int64_t at = 0;
  for (int image = 0; image < layer.images; ++image)
    for (int row = 0; row < w.rows; ++row)
      for (int column = 0; column < w.columns; ++column)
        for (int first = 0; first < w.channels; first += FPGA_LANES) {
          const int lanes = w.channels - first < FPGA_LANES ? w.channels - first : FPGA_LANES;
          int32_t acc[FPGA_LANES];
          for (int lane = 0; lane < FPGA_LANES; ++lane) acc[lane] = layer.average ? 0 : -128;
          for (int i = 0; i < w.kernel_height; ++i)
            for (int j = 0; j < w.kernel_width; ++j) {
              const int y = row * w.stride_y - w.top + i * w.dilation_y;
              const int x = column * w.stride_x - w.left + j * w.dilation_x;
              if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
              const int8_t* from =
                  input +
                  ((static_cast<int64_t>(image) * w.height + y) * w.width + x) * w.channels + first;
              for (int lane = 0; lane < lanes; ++lane) {
                const int32_t v = from[lane];
                acc[lane] = layer.average ? acc[lane] + v : v > acc[lane] ? v : acc[lane];
              }
            }
          for (int lane = 0; lane < lanes; ++lane, ++at)
            result[at] = layer.average
                             ? clamped(shifted(int64_t{acc[lane]} * layer.multiplier, layer.shift),
                                       layer.low, layer.high)
                             : static_cast<int8_t>(acc[lane]);
        }
}

void fpga_add_circuit(const FpgaAdd& layer, int64_t elements, const int8_t* lhs, const int8_t* rhs,
                      int8_t* result) {
  for (int64_t i = 0; i < elements; ++i) {
    const int64_t sum = int64_t{lhs[i]} * (int64_t{1} << layer.lhs_shift) +
                        int64_t{rhs[i]} * (int64_t{1} << layer.rhs_shift);
    result[i] = rescaled(sum, layer.rescale);
  }
}

}  // namespace ceras
