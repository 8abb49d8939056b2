// Options of an engine whose FPGA layers run in the simulated core.
#pragma once

#include <memory>

#include "fpga.h"

namespace ceras {

constexpr const char* HARDWARE_USAGE =
    "       --rtl FILE        run the FPGA's layers in the simulated core; FILE gets a line for\n"
    "                         each, with its cycles, or 0 and why the core does not take it\n"
    "       --stall PERCENT   of cycles, those in which a channel of the bus waits (0)\n"
    "       --latency CYCLES  from a request to its first data (32)\n";

struct HardwareOptions {
  const char* log = nullptr;
  int stall = 0, latency = 32;

  bool take(const char* option, const char* value);
};

// Null where no option asks for it.
std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options);

}  // namespace ceras
