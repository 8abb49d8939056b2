// What a layer's registers are for the circuits in Verilog, and the stream of its constants.
#pragma once

#include <cstdint>
#include <vector>

#include "core.h"
#include "fpga.h"

namespace ceras {

struct RtlPlan {
  uint32_t words[RTL_WORDS] = {};
  std::vector<uint8_t> stream;  // 64-byte aligned where it is shown
  int64_t input_bytes = 0, residual_bytes = 0, result_bytes = 0;  // from first to last
};

// False where the layer exceeds what the circuit was built for; the plan has no meaning then.
// Constants and shifts as fpga_linear_circuit takes them; `weights` in the order of its array.
bool rtl_plan_linear(const FpgaLinear& layer, const int8_t* weights, const int32_t* constants,
                     const int8_t* shifts, const FpgaTables& tables, bool residual, RtlPlan& plan);
bool rtl_plan_pool(const FpgaPool& layer, RtlPlan& plan);
bool rtl_plan_add(const FpgaAdd& layer, RtlPlan& plan);
void rtl_set_addresses(RtlPlan& plan, uint64_t input, uint64_t stream, uint64_t residual,
                       uint64_t result);

}  // namespace ceras
