// Pooling and addition, with bytes at the rate of memory.
#include "fpga.h"

namespace ceras {
namespace {

int8_t averaged(int32_t sum, const FpgaPool& p) {
  const int64_t half = p.shift > 0 ? int64_t{1} << (p.shift - 1) : 0;
  const int64_t product = int64_t{sum} * p.multiplier;
  int64_t mean = (product + half) >> p.shift;
  // A tie that was rounded up to an odd value.
  if (p.to_even && (product & (2 * half - 1)) == half) mean -= mean & 1;
  mean += p.zero_point;
  return static_cast<int8_t>(mean < p.low ? p.low : mean > p.high ? p.high : mean);
}

}  // namespace

FpgaCircuits* fpga_circuits = nullptr;

void fpga_pool_circuit(const FpgaPool& layer, const int8_t* input, int8_t* result) {
  const FpgaWindow& w = layer.window;
  int64_t pixel = 0;
  for (int image = 0; image < layer.images; ++image)
    for (int row = 0; row < w.rows; ++row)
      for (int column = 0; column < w.columns; ++column, ++pixel)
        for (int first = 0; first < w.channels; first += LANES) {
          const int lanes = w.channels - first < LANES ? w.channels - first : LANES;
          int32_t acc[LANES];
          for (int lane = 0; lane < LANES; ++lane) acc[lane] = layer.average ? 0 : -128;
          for (int i = 0; i < w.kernel_height; ++i)
            for (int j = 0; j < w.kernel_width; ++j) {
              const int y = row * w.stride_y - w.top + i * w.dilation_y;
              const int x = column * w.stride_x - w.left + j * w.dilation_x;
              if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
              const int8_t* from =
                  input +
                  ((static_cast<int64_t>(image) * w.height + y) * w.width + x) * layer.input_pitch +
                  first;
              for (int lane = 0; lane < lanes; ++lane) {
                const int32_t v = from[lane];
                acc[lane] = layer.average ? acc[lane] + v - layer.input_zero
                            : v > acc[lane] ? v
                                            : acc[lane];
              }
            }
          int8_t* to = result + pixel * layer.result_pitch + first;
          for (int lane = 0; lane < lanes; ++lane)
            to[lane] =
                layer.average ? averaged(acc[lane], layer) : static_cast<int8_t>(acc[lane]);
        }
}

void fpga_add_circuit(const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs, int8_t* result) {
  // Shifts are at most 22, so the sum of elements minus zero points fits 32 bits.
  const int32_t left = 1 << layer.lhs_shift, right = 1 << layer.rhs_shift;
  const int32_t zero = layer.lhs_zero * left + layer.rhs_zero * right;
  for (int64_t row = 0; row < layer.rows; ++row) {
    const int8_t* a = lhs + row * layer.lhs_pitch;
    const int8_t* b = rhs + row * layer.rhs_pitch;
    int8_t* to = result + row * layer.result_pitch;
    for (int64_t at = 0; at < layer.length; at += FPGA_BURST) {
      const int64_t rest = layer.length - at;
      const int count = rest < FPGA_BURST ? static_cast<int>(rest) : FPGA_BURST;
      int32_t acc[FPGA_BURST];
      for (int i = 0; i < count; ++i) acc[i] = a[at + i] * left + b[at + i] * right - zero;
      fpga_rescale_all(acc, count, layer.rescale);
      for (int i = 0; i < count; ++i) to[at + i] = static_cast<int8_t>(acc[i]);
    }
  }
}

}  // namespace ceras
