// Simulate the core in Verilog, with registers on AXI4-Lite and shared memory on AXI4.
#pragma once

#include <memory>

#include "core.h"

namespace ceras {

// The timing of the memory.
struct SimulatedMemory {
  int latency = 32;   // cycles from a request to the first data
  int stall = 0;      // percent of cycles in which a channel waits
  uint64_t seed = 1;  // of the next launch
  // The burst that gets an error, counted from the next one; 0: none.
  uint64_t failing_read = 0, failing_write = 0;
};

class Simulation : public Core {
 public:
  Simulation();
  ~Simulation() override;
  SimulatedMemory memory;
  const CoreSize& size() const override;
  void begin() override;
  uint64_t show(const void* data, int64_t bytes, bool writable) override;
  uint64_t keep(const void* data, size_t bytes) override;
  void replace(uint64_t address, const void* data, size_t bytes) override;
  uint32_t read(uint32_t word) override;
  void write(uint32_t word, uint32_t value) override;
  void wait() override;
  // Discard the constants of `keep`.
  void forget();
  // Show memory to launches at `address`, until `begin`.
  void show_at(uint64_t address, void* data, int64_t bytes);

 protected:
  uint64_t queue_address() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ceras
