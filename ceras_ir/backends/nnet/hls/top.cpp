// The top function: one step of the network on the circuit that it names.
#include "steps.h"

extern "C" void ceras_fpga(int step, int8_t* memory, const int8_t* weights,
                           const int32_t* constants, const int8_t* shifts) {
  CERAS_HLS(HLS INTERFACE s_axilite port = step)
  CERAS_HLS(HLS INTERFACE s_axilite port = return)
  CERAS_HLS(HLS INTERFACE m_axi port = memory bundle = shared depth = 1048576)
  CERAS_HLS(HLS INTERFACE m_axi port = weights bundle = constants depth = 1048576)
  CERAS_HLS(HLS INTERFACE m_axi port = constants bundle = constants depth = 65536)
  CERAS_HLS(HLS INTERFACE m_axi port = shifts bundle = constants depth = 65536)
  static ceras::FpgaBuffers buffers;
  const ceras::Step& s = ceras::STEPS[step];
  int8_t* result = memory + s.result;
  const int8_t* other = s.other < 0 ? nullptr : memory + s.other;
  switch (s.circuit) {
    case ceras::Circuit::Linear:
      ceras::fpga_linear_circuit(s.linear, memory + s.input, weights, constants,
                                 s.has_shifts ? shifts : nullptr, other, result, buffers);
      break;
    case ceras::Circuit::Pool:
      ceras::fpga_pool_circuit(s.pool, memory + s.input, result);
      break;
    case ceras::Circuit::Add:
      ceras::fpga_add_circuit(s.add, memory + s.input, other, result);
      break;
  }
}
