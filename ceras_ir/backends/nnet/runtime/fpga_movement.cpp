// Copies and lookups, with bytes at the rate of memory.
#include "fpga_epilogue.h"

namespace ceras {

void fpga_move_circuit(const FpgaMove& move, const int8_t* input, int8_t* result) {
  constexpr int LAST = FPGA_BOX - 1;
  const int64_t unit = move.unit, run = move.dims[LAST];
  const bool dense = move.from[LAST] == unit && move.to[LAST] == unit;
  int index[LAST] = {};
  for (;;) {
    if (dense)
      for (int64_t i = 0; i < run * unit; ++i) {
        result[i] = input[i];
      }
    else
      for (int64_t i = 0; i < run; ++i)
        for (int64_t j = 0; j < unit; ++j)
          result[i * move.to[LAST] + j] = input[i * move.from[LAST] + j];
    int d = LAST - 1;
    for (; d >= 0; --d) {
      if (++index[d] < move.dims[d]) break;
      input -= (move.dims[d] - 1) * move.from[d];
      result -= (move.dims[d] - 1) * move.to[d];
      index[d] = 0;
    }
    if (d < 0) return;
    input += move.from[d];
    result += move.to[d];
  }
}

void fpga_lookup_circuit(const FpgaLookup& layer, const FpgaTables& tables, const int8_t* input,
                         int8_t* result) {
  const int64_t from = layer.input_pitch, to = layer.result_pitch;
  for (int64_t row = 0; row < layer.rows; row += FPGA_MBLOCK) {
    const int64_t rest = layer.rows - row;
    const int rows = rest < FPGA_MBLOCK ? static_cast<int>(rest) : FPGA_MBLOCK;
    for (int channel = 0; channel < layer.channels; channel += LANES) {
      const int left = layer.channels - channel, lanes = left < LANES ? left : LANES;
      int32_t stored[FPGA_MBLOCK * LANES];
      for (int p = 0; p < rows; ++p)
        for (int lane = 0; lane < LANES; ++lane)
          stored[p * LANES + lane] = lane < lanes ? input[(row + p) * from + channel + lane] : 0;
      fpga_look_up(tables, tables.rows != nullptr ? tables.rows + channel : nullptr, stored, rows,
                   lanes, result + row * to + channel * tables.entry_bytes, to);
    }
  }
}

}  // namespace ceras
