// The circuits in Verilog, simulated: registers through AXI4-Lite, shared memory behind AXI4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ceras {

// What the Verilog was built for; the build defines the numbers.
constexpr int RTL_LANES = CERAS_RTL_LANES;
constexpr int RTL_BUS_BYTES = CERAS_RTL_BUS_BYTES;
constexpr int64_t RTL_LINE_BYTES = CERAS_RTL_LINE_BYTES;
constexpr int64_t RTL_RESULT_BYTES = CERAS_RTL_RESULT_BYTES;
constexpr int RTL_PIXELS = 256;  // of a block
constexpr int RTL_WORDS = 50;    // registers of a launch, see hdl/layer_registers.sv

// How memory answers.
struct RtlMemory {
  int latency = 32;     // cycles from a request to its first data
  int stall = 0;        // percent of cycles in which a channel waits
  uint64_t seed = 1;
};

class RtlCore {
 public:
  RtlCore();
  ~RtlCore();
  RtlMemory memory;
  // Make `bytes` bytes visible; the address that the circuits have for the first. Regions last
  // until `forget`.
  uint64_t show(const void* data, int64_t bytes, bool writable);
  void forget();
  // Run one layer to its interrupt; its cycles.
  uint32_t launch(const uint32_t (&words)[RTL_WORDS]);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ceras
