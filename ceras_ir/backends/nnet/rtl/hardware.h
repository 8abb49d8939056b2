// The options of an engine that executes FPGA layers in the simulated core.
#pragma once

#include <memory>

#include "fpga.h"

namespace ceras {

constexpr const char* HARDWARE_USAGE =
    "       --rtl FILE        execute FPGA layers in the simulated core; write a line per layer:\n"
    "                         the cycles, or 0 and the reason of the refusal\n"
    "       --stall PERCENT   of cycles in which a channel of the bus waits (0)\n"
    "       --latency CYCLES  from a request to the first data (32)\n";

struct HardwareOptions {
  const char* log = nullptr;
  int stall = 0, latency = 32;

  bool take(const char* option, const char* value);
};

// Null without options.
std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options);

}  // namespace ceras
