// A core of hdl/nnet_core.sv, wherever it is: what it was built as, and how a layer gets to it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "registers.h"

namespace ceras {

// What the Verilog was built for; the core says it itself.
struct CoreSize {
  int lanes = 0;
  int bus_bytes = 0;
  int64_t line_bytes = 0;
  int64_t result_bytes = 0;
  int tables = 0;  // of one layer
};

class Core {
 public:
  virtual ~Core() = default;
  virtual const CoreSize& size() const = 0;
  // Forget what launches saw of memory; constants stay.
  virtual void begin() = 0;
  // Let the next launch read `bytes` bytes, or write them too; the address that it has for the first.
  virtual uint64_t show(const void* data, int64_t bytes, bool writable) = 0;
  // The address of constants that many launches read, which were `bytes` bytes at `data`.
  virtual uint64_t keep(const void* data, size_t bytes) = 0;
  // Put other bytes at an address of `keep`; no more than it has there.
  virtual void replace(uint64_t address, const void* data, size_t bytes) = 0;
  // Run a layer to its end; its cycles.
  virtual uint32_t launch(const uint32_t (&words)[registers::WORDS]) = 0;
};

}  // namespace ceras
