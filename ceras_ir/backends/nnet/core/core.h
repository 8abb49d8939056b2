// The interface of a core of hdl/nnet_core.sv, on a board or simulated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

using LayerWords = std::array<uint32_t, registers::WORDS>;

constexpr size_t MAX_QUEUED_LAYERS = 64;

// A launch that ends with an error throws FpgaError with the number of the layer in the queue.
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
  uint32_t launch(const LayerWords& words);
  // Execute at most MAX_QUEUED_LAYERS layers with a single start, and return the cycles.
  uint32_t launch_queue(const std::vector<LayerWords>& layers);

 protected:
  // Memory for a queue, and its address for the core.
  virtual uint64_t queue_address() = 0;
  virtual uint32_t read(uint32_t word) = 0;
  virtual void write(uint32_t word, uint32_t value) = 0;
  // Wait until the core is idle, after a write of `control`.
  virtual void wait() = 0;
  CoreSize read_size();

 private:
  uint32_t run(uint32_t start);

  std::vector<uint8_t> queue_;  // the bytes in memory
  uint64_t queue_at_ = 0;
};

}  // namespace ceras
