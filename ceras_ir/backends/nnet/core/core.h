// The interface of a core of hdl/nnet_core.sv, on a board or simulated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "registers.h"

namespace ceras {

// The parameters of the Verilog, which the core reports in registers.
struct CoreSize {
  int lanes = 0;
  int bus_bytes = 0;
  int64_t line_bytes = 0;
  int64_t result_bytes = 0;
  int tables = 0;  // of a layer
};

class Core {
 public:
  virtual ~Core() = default;
  virtual const CoreSize& size() const = 0;
  // Revoke the access of launches to memory, except for constants.
  virtual void begin() = 0;
  // Let the next launch read, and optionally write, `bytes` bytes. Return the address for the core.
  virtual uint64_t show(const void* data, int64_t bytes, bool writable) = 0;
  // Copy constants for several launches, and return the address for the core.
  virtual uint64_t keep(const void* data, size_t bytes) = 0;
  // Replace constants at an address of `keep`. They must not be longer.
  virtual void replace(uint64_t address, const void* data, size_t bytes) = 0;
  // Execute a layer, and return the cycles.
  virtual uint32_t launch(const uint32_t (&words)[registers::WORDS]) = 0;
};

}  // namespace ceras
