// What the files of the FPGA's host side share.
#pragma once

#include "fpga.h"
#include "operation.h"

namespace ceras {

// What keeps the mover from a layer; null if nothing does.
const char* check_fpga_move(const Layer& layer);
// What a checked layer moves.
std::vector<FpgaBox> fpga_boxes_of(const Layer& layer);
// Whether any byte is not already where it goes.
bool moves_any(const Layer& layer);

// Whether an operand of a concatenation is already where the result has it.
bool is_in_its_slice(const Layer& layer, size_t index);

}  // namespace ceras
