// A layer in the simulated core and in the circuit in C++, and whether their results agree.
#pragma once

#include <cstdio>
#include <vector>

#include "circuits.h"
#include "simulation.h"

namespace ceras {

// Execute a planned layer, and return the cycles.
inline uint32_t run_plan(Core& core, CorePlan& plan, uint64_t stream, const int8_t* input,
                         const int8_t* residual, int8_t* result) {
  core.begin();
  show_plan(core, plan, stream, input, residual, result);
  return core.launch(plan.words);
}

// Cycles of a layer, 0 where the core does not take it.
inline uint32_t run_layer(Simulation& core, CorePlan plan, const int8_t* input,
                          const int8_t* residual, int8_t* result) {
  if (!plan.taken()) return 0;
  core.forget();
  const uint64_t stream = core.keep(plan.stream.data(), plan.stream.size());
  return run_plan(core, plan, stream, input, residual, result);
}

inline int64_t products_of(const FpgaLinear& layer) {
  const FpgaWindow& w = layer.window;
  const int64_t taps = layer.product ? 1 : int64_t{w.kernel_height} * w.kernel_width;
  return taps * (layer.by_channel ? 1 : w.channels);
}

// The bits of the weights of test `number`, and weights that these bits hold: the high bits of bytes.
inline int bits_of(unsigned long number) { return number % 3 == 0 ? 8 : number % 3 == 1 ? 4 : 2; }

inline void narrow(std::vector<int8_t>& weights, int bits) {
  for (int8_t& weight : weights) weight = static_cast<int8_t>(weight >> (8 - bits));
}

inline std::vector<int8_t> packed(const FpgaLinear& layer, const std::vector<int8_t>& weights) {
  const int64_t products = products_of(layer);
  std::vector<int8_t> result(static_cast<size_t>(fpga_weight_bytes(layer.outputs, products)));
  (layer.by_channel ? fpga_pack_depthwise : fpga_pack_weights)(weights.data(), layer.outputs,
                                                               products, result.data());
  return result;
}

inline void run_in_cpp(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                       const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                       const int8_t* residual, int8_t* result, FpgaBuffers& buffers) {
  if (layer.by_channel)
    fpga_depthwise_circuit(layer, input, weights, constants, shifts, tables, residual, result);
  else
    fpga_linear_circuit(layer, input, weights, constants, shifts, tables, residual, result,
                        buffers);
}

inline bool same(const std::vector<int8_t>& expected, const std::vector<int8_t>& got,
                 const char* what, unsigned long number) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != got[i]) {
      std::printf("%s %lu: byte %zu of %zu is %d, expected %d\n", what, number, i,
                  expected.size(), got[i], expected[i]);
      return false;
    }
  return true;
}

}  // namespace ceras
