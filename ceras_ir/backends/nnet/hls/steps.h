// The FPGA side of one network: the launches of its circuits, in order, and the top function.
#pragma once

#include <cstdint>

#include "fpga.h"

namespace ceras {

enum class Circuit : uint8_t { Linear, Depthwise, Pool, Add, Lookup, Move };

// One box of a step of the mover, and where its first element lies and goes.
struct Box {
  FpgaMove move;
  int64_t from;
  int64_t to;
};

// The registers of one launch, and where its values lie in the memory that CPU and FPGA share.
struct Step {
  Circuit circuit;
  FpgaLinear linear;
  FpgaPool pool;
  FpgaAdd add;
  int64_t input;
  int64_t other;  // the residual, or the second operand of a sum; -1 without one
  int64_t result;
  int64_t products;  // of each output of a linear layer
  bool has_shifts;   // one for each output channel
  FpgaLookup lookup;
  int tables;       // function tables, of 256 entries each
  int entry_bytes;  // of their entries
  int table_rows;   // channels that name theirs; 0 where all have the first
  int first_box;
  int boxes;
};

extern const int STEP_COUNT;
extern const int64_t MEMORY_BYTES;
extern const Step STEPS[];
extern const Box BOXES[];
extern const char* const STEP_NAMES[];

}  // namespace ceras

// Run one step. Of a linear layer, `weights` is in the order of the array (fpga_pack_weights),
// `constants` is what its channels add to their sums (fpga_channel_constants), and `shifts`, read
// where they differ, what those are shifted by. `tables` are the step's, `rows` which one each
// channel has.
extern "C" void ceras_fpga(int step, int8_t* memory, const int8_t* weights,
                           const int32_t* constants, const int8_t* shifts, const uint8_t* tables,
                           const uint8_t* rows);
