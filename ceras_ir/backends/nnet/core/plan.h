// What a layer's registers are for the core, and the stream of its constants.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core.h"
#include "fpga.h"

namespace ceras {

struct CorePlan {
  uint32_t words[registers::WORDS] = {};
  std::vector<uint8_t> stream;
  size_t table_bytes = 0;  // of the function tables that it begins with
  int64_t input_bytes = 0, residual_bytes = 0, result_bytes = 0;  // from first to last
  std::string refused;  // why the core does not take the layer; the rest has no meaning then

  bool taken() const { return refused.empty(); }
};

// Constants and shifts as fpga_linear_circuit takes them; `weights` in the order of its array, or
// [outputs][products] where they are computed. Without weights, the plan has registers only.
CorePlan plan_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                     const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                     bool residual);
// Put others into the stream of a plan that is taken; it is as long as before.
void refill_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                   const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                   bool residual, CorePlan& plan);
CorePlan plan_pool(const CoreSize& size, const FpgaPool& layer);
CorePlan plan_add(const CoreSize& size, const FpgaAdd& layer);
CorePlan plan_lookup(const CoreSize& size, const FpgaLookup& layer, const FpgaTables& tables);

// Bytes from the first of input and result to those that a launch begins with.
struct Place {
  int64_t input, result;
};
// Launches of one plan, which differ in their places.
struct MovePlan {
  CorePlan plan;
  std::vector<Place> places;
};
MovePlan plan_move(const CoreSize& size, const FpgaMove& move);
void set_addresses(CorePlan& plan, uint64_t input, uint64_t stream, uint64_t residual,
                   uint64_t result);

}  // namespace ceras
