// A layer in the simulated core, and its result against that of the circuit in C++.
#pragma once

#include <cstdio>
#include <vector>

#include "circuits.h"
#include "simulation.h"

namespace ceras {

// Cycles of a layer, 0 where the core does not take it.
inline uint32_t run_layer(Simulation& core, CorePlan plan, const int8_t* input,
                          const int8_t* residual, int8_t* result) {
  if (!plan.taken()) return 0;
  core.forget();
  const uint64_t stream = core.keep(plan.stream.data(), plan.stream.size());
  return run_plan(core, plan, stream, input, residual, result);
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
