// The core of a bitstream, driven from Linux: its registers, and memory that it shares with the CPU.
#pragma once

#include <memory>
#include <string>

#include "cache_lines.h"
#include "circuits.h"
#include "device.h"

namespace ceras {

struct BoardSettings {
  std::string memory = "udmabuf0";       // buffer of u-dma-buf
  std::string registers = "/dev/uio0";   // a file that maps them, or their physical address
  std::string register_file = "/dev/mem";  // where they are by address
  std::string interrupt;  // what reads when one comes; the UIO device, else empty: poll
  std::string devices = "/dev";
  std::string classes = "/sys/class";
  uint32_t timeout_ms = 1000;  // of a launch
};

// Memory begins with the arena; the constants of all layers follow.
class BoardCore : public Core {
 public:
  explicit BoardCore(const BoardSettings& settings);  // FpgaError where there is none
  ~BoardCore() override;
  const CoreSize& size() const override { return size_; }
  void begin() override {}
  uint64_t show(const void* data, int64_t bytes, bool writable) override;
  uint64_t keep(const void* data, size_t bytes) override;
  void replace(uint64_t address, const void* data, size_t bytes) override;
  uint32_t launch(const uint32_t (&words)[registers::WORDS]) override;

  uint8_t* arena(uint64_t bytes);
  void check_memory() const;  // FpgaError where arena and constants do not fit
  void cpu_uses(const void* data, int64_t bytes, CpuUse use);

 private:
  uint64_t offset_of(const void* data) const;
  uint32_t read(uint32_t word) const;
  void write(uint32_t word, uint32_t value) const;
  void wait() const;

  BoardSettings settings_;
  DeviceMemory memory_{};
  DeviceRegisters registers_{};
  std::unique_ptr<CacheLines> lines_;
  int interrupt_ = -1;
  CoreSize size_;
  uint64_t used_ = 0;  // of the memory, or more than it has
};

// FPGA layers on a board's core, and what it has no circuit for on its CPU.
class BoardCircuits : public CoreCircuits {
 public:
  BoardCircuits(BoardCore& core, const char* log) : CoreCircuits(core, log), core_(core) {}
  uint8_t* arena(uint64_t bytes) override { return core_.arena(bytes); }
  void cpu_uses(const void* data, int64_t bytes, CpuUse use) override {
    core_.cpu_uses(data, bytes, use);
  }
  void end_planning() override {
    CoreCircuits::end_planning();
    core_.check_memory();
  }

 private:
  BoardCore& core_;
};

}  // namespace ceras
