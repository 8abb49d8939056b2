// The registers of a layer for the core, and the stream of constants.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core.h"
#include "fpga.h"

namespace ceras {

struct CorePlan {
  LayerWords words = {};
  std::vector<uint8_t> stream;
  size_t table_bytes = 0;  // of the function tables at the start of the stream
  int64_t input_bytes = 0, residual_bytes = 0, result_bytes = 0;  // from the first to the last byte
  std::string refused;  // the reason of a refusal; the other fields are then undefined

  bool taken() const { return refused.empty(); }
};

// Plan a linear layer. Constants and shifts have the format of fpga_linear_circuit. `weights` have
// the order of the array, or [outputs][products] if computed. Without weights, only plan registers.
CorePlan plan_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                     const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                     bool residual);
// Replace the constants in the stream of an accepted plan. The length does not change.
void refill_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                   const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                   bool residual, CorePlan& plan);
CorePlan plan_pool(const CoreSize& size, const FpgaPool& layer);
CorePlan plan_add(const CoreSize& size, const FpgaAdd& layer);
CorePlan plan_lookup(const CoreSize& size, const FpgaLookup& layer, const FpgaTables& tables);

// The byte offsets of a launch in the input and the result.
struct Place {
  int64_t input, result;
};
// Launches with equal registers at different offsets.
struct MovePlan {
  CorePlan plan;
  std::vector<Place> places;
};
MovePlan plan_move(const CoreSize& size, const FpgaMove& move);
void set_addresses(CorePlan& plan, uint64_t input, uint64_t stream, uint64_t residual,
                   uint64_t result);

}  // namespace ceras
