// Define an operation by an entry in a table, next to the operators.
//
// The loader, the checks, the memory rules and the engine use the tables. An operation of the
// format is defined by a single entry in a `cpu_*.cpp`.
#pragma once

#include "model.h"

namespace ceras {

constexpr int ANY = -1;

// The permitted parts of a layer, and the properties that operands and result share.
enum Rule : unsigned {
  PLAIN = 0,
  EPILOGUE = 1,      // bias, multipliers and residual after the operands, and a table
  FUNCTION = 2,      // a function and its parameters
  LOOKUP = 4,        // lookup tables, which are required
  REQUANT = 8,       // a requantization
  SAME_SHAPE = 16,   // the result has the shape of the operand
  SAME_TYPE = 32,    // the result has storage, scale and zero point of all operands
  ALL_STORAGES = 64  // integers of 64 bits and booleans are permitted
};

enum class Circuit : uint8_t { None, Array, Pool, Adder, Mover, Table };

using Check = const char* (*)(const Layer&);
using Choose = Run (*)(const Layer&);
using Overlap = bool (*)(const Layer&, size_t operand);

// The operator of an operation with a single operator.
template <Run run>
Run always(const Layer&) {
  return run;
}

const char* accept_as_it_is(Layer& layer);
const char* operand_fits(const Layer& layer);
bool never(const Layer& layer, size_t operand);
bool in_place(const Layer& layer, size_t operand);
bool over_equal(const Layer& layer, size_t operand);
bool at_equal(const Layer& layer, size_t operand);
int64_t no_scratch(const Layer& layer);
double work_of_elements(const Layer& layer);
void pack_nothing(const Layer& layer, uint8_t* to);

struct Operation {
  uint16_t opcode;
  int operands;    // without those of the output stage; ANY: one or more
  int words;       // attributes; ANY: `prepare` or `check` counts them
  unsigned rules;  // of `Rule`
  Check check;     // checks that are not in the rules; null, or the fault
  Choose run;      // the operator of a checked layer
  Overlap may_overwrite = never;                     // Whether the result may overwrite an operand.
  const char* (*prepare)(Layer&) = accept_as_it_is;  // Converts the attributes, before any check.
  Check sum_fits = operand_fits;                     // For layers with a requantization.
  int64_t (*scratch)(const Layer&) = no_scratch;     // The scratch bytes on the CPU.
  Circuit circuit = Circuit::None;
  double (*work)(const Layer&) = work_of_elements;  // The maximum products and elements per run.
  int64_t (*packed)(const Layer&) = no_scratch;     // Bytes of constants in kernel order.
  void (*pack)(const Layer&, uint8_t*) = pack_nothing;
  Overlap keeps = never;  // Whether an operand is already at its bytes of the result.

  bool takes(Rule rule) const { return (rules & rule) != 0; }
};

struct Family {
  const Operation* first;
  size_t count;

  template <size_t n>
  constexpr Family(const Operation (&all)[n]) : first(all), count(n) {}
};

extern const Family BINARY, ELEMENTWISE, LINEAR, LOGIC, MOVEMENT, POOLING, RECURRENT, REDUCTION, ROWS;

// Return the operation of an opcode, or null.
const Operation* operation_of(uint32_t opcode);

Run fpga_operator_of(const Layer& layer);
int64_t fpga_scratch_bytes(const Layer& layer);
// Return whether weights are computed, so that the CPU packs them for the FPGA before each run.
bool packs_in_each_run(const Layer& layer);
// The side that reads an operand.
Device side_of(const Layer& layer, size_t operand);

// Prepare the caches of the CPU for a value, or for the values of a layer.
void cpu_reads(const Tensor& tensor);
void cpu_writes(const Tensor& tensor);
void cpu_uses(const Layer& layer);

}  // namespace ceras
