// Start the core, and report how a launch ends.
#include "core.h"

#include <cstring>
#include <utility>

#include "fpga.h"

namespace ceras {
namespace {

using namespace registers;

const char* reason_of(uint32_t status) {
  // An abort comes last, because it can be the consequence of another error.
  if (status & REJECTED)
    return "the core rejects the values of the registers: load a bitstream of the sources of this "
           "engine";
  if (status & READ_FAILED)
    return "the memory answered a read of the core with an error: check the memory port, and the "
           "address of the buffer";
  if (status & WRITE_FAILED)
    return "the memory answered a write of the core with an error: check the memory port, and the "
           "address of the buffer";
  return "the launch was aborted";
}

}  // namespace

uint32_t Core::run(uint32_t start) {
  write(CONTROL, start);
  wait();
  if (const uint32_t status = read(STATUS); status != 0)
    throw FpgaError(reason_of(status), read(LAUNCHES));
  return read(CYCLES);
}

uint32_t Core::launch(const LayerWords& words) {
  for (uint32_t i = 0; i < WORDS; ++i) write(LAYER + i, words[i]);
  return run(START);
}

uint32_t Core::launch_queue(const std::vector<LayerWords>& layers) {
  std::vector<uint8_t> queue(layers.size() * DESCRIPTOR_BYTES);
  for (size_t i = 0; i < layers.size(); ++i)
    std::memcpy(queue.data() + i * DESCRIPTOR_BYTES, layers[i].data(), sizeof layers[i]);
  const uint64_t address = queue_address();
  // The queue of a network is the same in each run.
  if (address != queue_at_ || queue != queue_) replace(address, queue.data(), queue.size());
  queue_ = std::move(queue);
  queue_at_ = address;
  write(QUEUE_ADDRESS, static_cast<uint32_t>(address));
  write(QUEUE_ADDRESS_HIGH, static_cast<uint32_t>(address >> 32));
  write(QUEUE_LENGTH, static_cast<uint32_t>(layers.size()));
  return run(START_QUEUE);
}

CoreSize Core::read_size() {
  return {static_cast<int>(read(BUILT_LANES)), static_cast<int>(read(BUILT_BUS_BYTES)),
          read(BUILT_LINE_BYTES), read(BUILT_RESULT_BYTES), static_cast<int>(read(BUILT_TABLES))};
}

}  // namespace ceras
