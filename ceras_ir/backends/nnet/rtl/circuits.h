// The circuits in Verilog in the place of those in C++, layer by layer.
#pragma once

#include "core.h"
#include "fpga.h"

namespace ceras {

// Each runs its layer on `core` and gives its cycles; 0 where the circuit does not take it.
uint32_t rtl_linear(RtlCore& core, const FpgaLinear& layer, const int8_t* input,
                    const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                    const FpgaTables& tables, const int8_t* residual, int8_t* result);
uint32_t rtl_pool(RtlCore& core, const FpgaPool& layer, const int8_t* input, int8_t* result);
uint32_t rtl_add(RtlCore& core, const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs,
                 int8_t* result);

// From now on all layers of the FPGA's side run on one core whose memory stalls in `stall` of 100
// cycles; `path` gets a line with the cycles of each. What the core does not take runs in C++.
// False where the file cannot be written.
bool rtl_take_over(const char* path, int stall, int latency);

}  // namespace ceras
