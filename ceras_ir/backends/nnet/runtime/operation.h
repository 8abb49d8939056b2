// What an operation is: one entry in the table of its family, beside the code that runs it.
//
// The loader, the checks, the memory rules and the engine walk the tables. An operation of the
// format is an entry of a `cpu_*.cpp` and nothing elsewhere.
#pragma once

#include "model.h"

namespace ceras {

constexpr int ANY = -1;

// What a layer of the operation may have, and what of its operand its result keeps.
enum Rule : unsigned {
  PLAIN = 0,
  EPILOGUE = 1,      // bias, multipliers and residual behind its operands, and a table
  FUNCTION = 2,      // a function and its parameters
  LOOKUP = 4,        // lookup tables; it must have them
  REQUANT = 8,       // a requantization
  SAME_SHAPE = 16,   // its result has the shape of its operand
  SAME_TYPE = 32,    // and storage, scale and zero point of each
  ALL_STORAGES = 64  // also integers of 64 bits, and booleans
};

enum class Circuit : uint8_t { None, Array, Pool, Adder, Mover, Table };

using Check = const char* (*)(const Layer&);
using Choose = Run (*)(const Layer&);
using Overlap = bool (*)(const Layer&, size_t operand);

// Its operator, where it has one for all layers.
template <Run run>
Run always(const Layer&) {
  return run;
}

const char* accept_as_it_is(Layer& layer);
const char* operand_fits(const Layer& layer);
bool never(const Layer& layer, size_t operand);
bool in_place(const Layer& layer, size_t operand);
bool over_equal(const Layer& layer, size_t operand);
int64_t no_scratch(const Layer& layer);
double work_of_elements(const Layer& layer);
void pack_nothing(const Layer& layer, uint8_t* to);

struct Operation {
  uint16_t opcode;
  int operands;    // those of its epilogue not counted; ANY: one or more
  int words;       // attributes; ANY: `prepare` or `check` counts them
  unsigned rules;  // of `Rule`
  Check check;     // what the rules do not say; null, or what does not hold
  Choose run;      // the operator of a checked layer
  Overlap may_overwrite = never;                     // Whether its result may lie over an operand.
  const char* (*prepare)(Layer&) = accept_as_it_is;  // Attributes as numbers, before any check.
  Check sum_fits = operand_fits;                     // Of layers with a requantization.
  int64_t (*scratch)(const Layer&) = no_scratch;     // Bytes that it needs on the CPU.
  Circuit circuit = Circuit::None;
  double (*work)(const Layer&) = work_of_elements;  // Products and elements of one run, at most.
  int64_t (*packed)(const Layer&) = no_scratch;     // Bytes of constants in the order of its kernel.
  void (*pack)(const Layer&, uint8_t*) = pack_nothing;

  bool takes(Rule rule) const { return (rules & rule) != 0; }
};

struct Family {
  const Operation* first;
  size_t count;

  template <size_t n>
  constexpr Family(const Operation (&all)[n]) : first(all), count(n) {}
};

extern const Family BINARY, ELEMENTWISE, LINEAR, LOGIC, MOVEMENT, POOLING, RECURRENT, REDUCTION, ROWS;

// The operation of a number; null if there is none.
const Operation* operation_of(uint32_t opcode);

Run fpga_operator_of(const Layer& layer);
int64_t fpga_scratch_bytes(const Layer& layer);
// Whether its weights are computed, so that the CPU puts them into the order of the FPGA's array
// before each run.
bool packs_in_each_run(const Layer& layer);
// Which side reads an operand.
Device side_of(const Layer& layer, size_t operand);

// Have in the CPU's caches what it is about to read or write: a value, or those of a layer.
void cpu_reads(const Tensor& tensor);
void cpu_writes(const Tensor& tensor);
void cpu_uses(const Layer& layer);

}  // namespace ceras
