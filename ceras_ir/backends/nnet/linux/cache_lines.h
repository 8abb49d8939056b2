// Track the lines of shared memory that can differ between the caches of the CPU and memory.
//
// A line is clean, written by the CPU, or written by the device. It is never written by both: lines
// written by the CPU are cleaned before the device uses them, and lines written by the device are
// invalidated before the CPU uses them. Values can therefore share a line.
#pragma once

#include <cstdint>
#include <vector>

#include "device.h"
#include "fpga.h"

namespace ceras {

class CacheLines {
 public:
  explicit CacheLines(const DeviceMemory& memory);
  // Prepare the use of these bytes by the CPU or the device. Return false if this fails.
  bool cpu_uses(uint64_t offset, uint64_t bytes, CpuUse use);
  bool device_uses(uint64_t offset, uint64_t bytes, bool writes);

 private:
  enum State : uint8_t { CLEAN, OF_CPU, OF_DEVICE };
  using Maintain = int (*)(void* context, uint64_t offset, uint64_t size);
  bool settle(uint64_t first, uint64_t end, State state, Maintain maintain);
  void mark(uint64_t first, uint64_t end, State state);

  const DeviceMemory& memory_;
  std::vector<State> lines_;
};

}  // namespace ceras
