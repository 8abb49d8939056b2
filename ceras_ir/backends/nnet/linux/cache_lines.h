// Which lines of shared memory the CPU's caches may hold other bytes of than memory.
//
// A line is clean, or the CPU has written to it, or the device has. It is never both: what the CPU
// has written goes to memory before the device reads or writes it, and what the device has written
// leaves the caches before the CPU reads or writes it. So values may share a line.
#pragma once

#include <cstdint>
#include <vector>

#include "device.h"
#include "fpga.h"

namespace ceras {

class CacheLines {
 public:
  explicit CacheLines(const DeviceMemory& memory);
  // The CPU, or the device, is about to use these bytes. False where the caches cannot be reached.
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
