// The options of an engine that executes FPGA layers on a board.
#pragma once

#include <memory>

#include "board.h"

namespace ceras {

constexpr const char* HARDWARE_USAGE =
    "       --memory NAME         execute FPGA layers on the board, with this buffer of u-dma-buf\n"
    "       --registers FILE|ADDRESS   a UIO device, or a physical address (/dev/uio0)\n"
    "       --register-file FILE  the file that maps physical addresses (/dev/mem)\n"
    "       --interrupt FILE      blocks a read until an interrupt (the UIO device; else poll)\n"
    "       --timeout MS          the timeout of a launch (1000)\n"
    "       --cycles FILE         write a line per layer: the cycles, or 0 and the reason\n"
    "       --devices DIR         the folder of devices (/dev)\n"
    "       --classes DIR         the folder of the class of u-dma-buf (/sys/class)\n";

struct HardwareOptions {
  BoardSettings board;
  const char* log = nullptr;
  bool wanted = false;

  bool take(const char* option, const char* value);
};

// Null without options. Throws FpgaError if there is no board.
std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options);

}  // namespace ceras
