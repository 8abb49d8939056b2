// The top function: one step of the network on the circuit that it names.
#include "steps.h"

extern "C" void ceras_fpga(int step, int8_t* memory, const int8_t* weights,
                           const int32_t* constants, const int8_t* shifts, const uint8_t* tables,
                           const uint8_t* rows) {
  CERAS_HLS(HLS INTERFACE s_axilite port = step)
  CERAS_HLS(HLS INTERFACE s_axilite port = return)
  CERAS_HLS(HLS INTERFACE m_axi port = memory bundle = shared depth = 1048576)
  CERAS_HLS(HLS INTERFACE m_axi port = weights bundle = constants depth = 1048576)
  CERAS_HLS(HLS INTERFACE m_axi port = constants bundle = constants depth = 65536)
  CERAS_HLS(HLS INTERFACE m_axi port = shifts bundle = constants depth = 65536)
  CERAS_HLS(HLS INTERFACE m_axi port = tables bundle = constants depth = 16384)
  CERAS_HLS(HLS INTERFACE m_axi port = rows bundle = constants depth = 65536)
  static ceras::FpgaBuffers buffers;
  const ceras::Step& s = ceras::STEPS[step];
  int8_t* result = memory + s.result;
  const ceras::FpgaTables functions{s.tables > 0 ? tables : nullptr,
                                    s.table_rows > 0 ? rows : nullptr, s.entry_bytes};
  const int8_t* other = s.other < 0 ? nullptr : memory + s.other;
  switch (s.circuit) {
    case ceras::Circuit::Linear:
      ceras::fpga_linear_circuit(s.linear, memory + s.input, weights, constants,
                                 s.has_shifts ? shifts : nullptr, functions, other, result, buffers);
      break;
    case ceras::Circuit::Depthwise:
      ceras::fpga_depthwise_circuit(s.linear, memory + s.input, weights, constants,
                                    s.has_shifts ? shifts : nullptr, functions, other, result);
      break;
    case ceras::Circuit::Pool:
      ceras::fpga_pool_circuit(s.pool, memory + s.input, result);
      break;
    case ceras::Circuit::Add:
      ceras::fpga_add_circuit(s.add, memory + s.input, other, result);
      break;
    case ceras::Circuit::Lookup:
      ceras::fpga_lookup_circuit(s.lookup, functions, memory + s.input, result);
      break;
    case ceras::Circuit::Move:
      for (int i = s.first_box; i < s.first_box + s.boxes; ++i) {
        const ceras::Box& box = ceras::BOXES[i];
        ceras::fpga_move_circuit(box.move, memory + box.from, memory + box.to);
      }
      break;
  }
}
