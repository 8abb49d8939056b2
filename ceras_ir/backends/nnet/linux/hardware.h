// Options of an engine whose FPGA layers run on a board.
#pragma once

#include <memory>

#include "board.h"

namespace ceras {

constexpr const char* HARDWARE_USAGE =
    "       --memory NAME         run the FPGA's layers on the board: its buffer of u-dma-buf\n"
    "       --registers FILE|ADDRESS   a UIO device, or a physical address (/dev/uio0)\n"
    "       --register-file FILE  where registers are by address (/dev/mem)\n"
    "       --interrupt FILE      what reads when one comes (the UIO device; else poll)\n"
    "       --timeout MS          for a layer (1000)\n"
    "       --cycles FILE         gets a line for each layer: its cycles, or 0 and why there is none\n"
    "       --devices DIR         where devices are (/dev)\n"
    "       --classes DIR         where u-dma-buf's class is (/sys/class)\n";

struct HardwareOptions {
  BoardSettings board;
  const char* log = nullptr;
  bool wanted = false;

  bool take(const char* option, const char* value);
};

// Null where no option asks for it; FpgaError where it is not there.
std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options);

}  // namespace ceras
