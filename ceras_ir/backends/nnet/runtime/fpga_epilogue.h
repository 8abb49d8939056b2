// The output stage of circuits with products: constants, residual, requantization, function tables.
#pragma once

#include "fpga.h"
#include "lane_products.h"
#include "translate.h"

namespace ceras {

// Shift the 16 sums of each pixel by lane until `rest` bits of the shift remain. If two bits
// remain, the last is a sticky bit for all lower bits, which rounding to even needs.
inline void fpga_shift_lanes(int32_t* sums, int pixels, int outputs, const int8_t* shifts,
                             int rest) {
  int32_t right[LANES] = {}, below[LANES] = {}, most[LANES], factor[LANES];
  bool left = false;
  for (int lane = 0; lane < LANES; ++lane) {
    const int shift = (lane < outputs ? shifts[lane] : rest) - rest;
    right[lane] = shift < 0 ? 0 : shift < 31 ? shift : 31;
    below[lane] = static_cast<int32_t>((uint32_t{1} << right[lane]) - 1);
    factor[lane] = shift < 0 ? 1 << -shift : 1;
    most[lane] = shift < 0 ? FPGA_WIDE : INT32_MAX;
    left = left || shift < 0;
  }
  if (left)
    for (int p = 0; p < pixels; ++p) {
      for (int lane = 0; lane < LANES; ++lane) {
        const int32_t sum = sums[p * LANES + lane], end = most[lane];
        sums[p * LANES + lane] = (sum < -end ? -end : sum > end ? end : sum) * factor[lane];
      }
    }
  if (rest == 1)
    shift_rows<false>(sums, pixels, right, below);
  else
    shift_rows<true>(sums, pixels, right, below);
}

// Look up the values of up to 16 channels, with 16 values per pixel and the `rows` of the channels.
inline void fpga_look_up(const FpgaTables& tables, const uint8_t* rows, const int32_t* stored,
                         int pixels, int outputs, int8_t* result, int64_t pitch) {
  if (rows == nullptr && tables.entry_bytes == 1) {
    // A single table for all lanes: the bytes are contiguous and looked up in vectors.
    uint8_t bytes[FPGA_MBLOCK * LANES];
    for (int i = 0; i < pixels * LANES; ++i) bytes[i] = static_cast<uint8_t>(stored[i]);
    Translation(tables.entries).run(bytes, bytes, pixels * LANES);
    for (int p = 0; p < pixels; ++p)
      for (int lane = 0; lane < outputs; ++lane)
        result[p * pitch + lane] = static_cast<int8_t>(bytes[p * LANES + lane]);
    return;
  }
  const int size = tables.entry_bytes;
  for (int p = 0; p < pixels; ++p) {
    for (int lane = 0; lane < outputs; ++lane) {
      const int entry = (rows != nullptr ? rows[lane] : 0) * 256 + stored[p * LANES + lane] + 128;
      const uint8_t* from = tables.entries + entry * size;
      int8_t* to = result + p * pitch + lane * size;
      for (int i = 0; i < size; ++i) to[i] = static_cast<int8_t>(from[i]);
    }
  }
}

// The output stage of a layer.
struct FpgaEnd {
  FpgaRescale rescale;
  int residual_zero;
  int residual_shift;
  int64_t residual_pitch;
  int64_t result_pitch;
};

// Apply constants, residual, requantization and table to up to 16 channels of `pixels` pixels, from
// `channel` on. All pointers except that of the sums are to the first channel of the first pixel.
inline void fpga_finish(const FpgaEnd& end, int pixels, int channel, int outputs,
                        const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                        const int8_t* residual, int8_t* result, int32_t* sums) {
  // A copy, because bytes written through `result` might alias the registers.
  const int64_t from = end.residual_pitch, to = end.result_pitch;
  const int shared = end.rescale.right - end.rescale.left;
  int32_t offsets[LANES] = {}, factors[LANES] = {};
  for (int lane = 0; lane < outputs; ++lane) {
    const int further = shifts != nullptr ? shifts[channel + lane] - shared : 0;
    factors[lane] = 1 << (end.residual_shift + further);
    offsets[lane] = constants[channel + lane] - end.residual_zero * factors[lane];
  }
  for (int p = 0; p < pixels; ++p)
    for (int lane = 0; lane < LANES; ++lane) sums[p * LANES + lane] += offsets[lane];
  if (residual != nullptr) {
    residual += channel;
    for (int p = 0; p < pixels; ++p)
      for (int lane = 0; lane < outputs; ++lane)
        sums[p * LANES + lane] += residual[p * from + lane] * factors[lane];
  }
  FpgaRescale rescale = end.rescale;
  if (shifts != nullptr) {
    rescale.left = 0;
    rescale.right = rescale.to_even ? 2 : 1;
    fpga_shift_lanes(sums, pixels, outputs, shifts + channel, rescale.right);
  }
  fpga_rescale_all(sums, pixels * LANES, rescale);
  if (tables.entries != nullptr) {
    const uint8_t* rows = tables.rows != nullptr ? tables.rows + channel : nullptr;
    fpga_look_up(tables, rows, sums, pixels, outputs, result + channel * tables.entry_bytes, to);
    return;
  }
  result += channel;
  for (int p = 0; p < pixels; ++p)
    for (int lane = 0; lane < outputs; ++lane)
      result[p * to + lane] = static_cast<int8_t>(sums[p * LANES + lane]);
}

}  // namespace ceras
