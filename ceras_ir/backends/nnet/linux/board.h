// Drive the core of a bitstream from Linux, through registers and shared memory.
#pragma once

#include <memory>
#include <string>

#include "cache_lines.h"
#include "circuits.h"
#include "device.h"

namespace ceras {

struct BoardSettings {
  std::string memory = "udmabuf0";       // the buffer of u-dma-buf
  std::string registers = "/dev/uio0";   // a file to map, or the physical address
  std::string register_file = "/dev/mem";  // maps physical addresses
  std::string interrupt;  // blocks a read until an interrupt; default: the UIO device, or poll
  std::string devices = "/dev";
  std::string classes = "/sys/class";
  uint32_t timeout_ms = 1000;  // per launch
};

// The arena is at the start of the memory. The constants of all layers follow.
class BoardCore : public Core {
 public:
  explicit BoardCore(const BoardSettings& settings);  // throws FpgaError if there is no core
  ~BoardCore() override;
  const CoreSize& size() const override { return size_; }
  void begin() override {}
  uint64_t show(const void* data, int64_t bytes, bool writable) override;
  uint64_t keep(const void* data, size_t bytes) override;
  void replace(uint64_t address, const void* data, size_t bytes) override;

  uint8_t* arena(uint64_t bytes);
  // Reserve memory for queues. Throws FpgaError if arena, constants and queue do not fit.
  void end_planning();
  void cpu_uses(const void* data, int64_t bytes, CpuUse use);

 private:
  uint64_t queue_address() override { return queue_; }
  uint32_t read(uint32_t word) override;
  void write(uint32_t word, uint32_t value) override;
  void wait() override;
  uint64_t offset_of(const void* data) const;
  bool is_idle();
  static int idle(void* core);  // for device_wait
  [[noreturn]] void give_up();
  void check_memory() const;

  BoardSettings settings_;
  DeviceMemory memory_{};
  DeviceRegisters registers_{};
  std::unique_ptr<CacheLines> lines_;
  int interrupt_ = -1;
  uint64_t queue_ = 0;
  CoreSize size_;
  uint64_t used_ = 0;  // can exceed the size of the memory
};

// Execute FPGA layers on the core of a board, and layers without a circuit on the CPU.
class BoardCircuits : public CoreCircuits {
 public:
  BoardCircuits(BoardCore& core, const char* log) : CoreCircuits(core, log), core_(core) {}
  uint8_t* arena(uint64_t bytes) override { return core_.arena(bytes); }
  void cpu_uses(const void* data, int64_t bytes, CpuUse use) override {
    CoreCircuits::cpu_uses(data, bytes, use);
    core_.cpu_uses(data, bytes, use);
  }
  void end_planning() override {
    CoreCircuits::end_planning();
    core_.end_planning();
  }

 private:
  BoardCore& core_;
};

}  // namespace ceras
