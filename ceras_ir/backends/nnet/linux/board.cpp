// Launch on a board: maintain caches, write registers, start, and wait for the end.
#include "board.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/stat.h>
#include <unistd.h>

namespace ceras {
namespace {

constexpr uint64_t PAGE = 4096;
constexpr uint64_t REACHED = uint64_t{1} << 40;  // the end of the addresses of the core

[[noreturn]] void fail_with(const std::string& reason) { throw FpgaError(reason); }

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(value));
  return text;
}

bool is_address(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
}

bool is_character_device(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISCHR(found.st_mode);
}

}  // namespace

BoardCore::BoardCore(const BoardSettings& settings) : settings_(settings) {
  using namespace registers;
  const std::string& at = settings_.registers;
  const bool by_address = is_address(at);
  const std::string& file = by_address ? settings_.register_file : at;
  const uint64_t address = by_address ? std::strtoull(at.c_str(), nullptr, 0) : 0;
  if (device_map_registers(&registers_, file.c_str(), address, PAGE) != 0)
    fail_with(device_error());
  const uint32_t identity = read(IDENTITY);
  if (identity != VERSION)
    fail_with("no nnet core at " + at + ": the identity reads " + hex(identity) + ", expected " +
              hex(VERSION) + "; load the bitstream, or name the registers with --registers");
  size_ = read_size();
  if (!is_idle())
    fail_with("the core at " + at + " is busy with another process's launch, or hangs: load the "
              "bitstream again");
  if (settings_.interrupt.empty() && !by_address && is_character_device(at))
    settings_.interrupt = at;
  if (!settings_.interrupt.empty()) {
    interrupt_ = device_open_interrupt(settings_.interrupt.c_str());
    if (interrupt_ < 0) fail_with(device_error());
  }
  write(GLOBAL_ENABLE, interrupt_ >= 0 ? 1 : 0);
  write(ENABLE, interrupt_ >= 0 ? 1 : 0);
  if (device_open_udmabuf(&memory_, settings_.memory.c_str(), settings_.devices.c_str(),
                          settings_.classes.c_str(), uint64_t{1} << 26) != 0)
    fail_with(device_error());
  if (memory_.address + memory_.size > REACHED)
    fail_with("the buffer " + settings_.memory + " ends at " +
              hex(memory_.address + memory_.size) + ", the core reaches addresses below " +
              hex(REACHED));
  lines_ = std::make_unique<CacheLines>(memory_);
}

BoardCore::~BoardCore() {
  if (memory_.data != nullptr) device_close_udmabuf(&memory_);
  if (interrupt_ >= 0) close(interrupt_);
  device_unmap_registers(&registers_);
}

uint32_t BoardCore::read(uint32_t word) { return device_read(&registers_, 4 * word); }

void BoardCore::write(uint32_t word, uint32_t value) {
  // A start makes all writes to memory visible to the core.
  if (word == registers::CONTROL) device_barrier();
  device_write(&registers_, 4 * word, value);
}

uint8_t* BoardCore::arena(uint64_t bytes) {
  if (used_ != 0) fail_with("the board runs one model for a process");
  used_ = bytes;
  if (bytes > memory_.size) check_memory();
  std::memset(memory_.data, 0, bytes);
  return memory_.data;
}

uint64_t BoardCore::keep(const void* data, size_t bytes) {
  const uint64_t at = (used_ + PAGE - 1) / PAGE * PAGE;
  used_ = at + bytes;
  // Continue to count after the end of the memory, so that the message has the total.
  if (used_ > memory_.size) return 0;
  std::memcpy(memory_.data + at, data, bytes);
  return memory_.address + at;
}

void BoardCore::replace(uint64_t address, const void* data, size_t bytes) {
  uint8_t* at = memory_.data + (address - memory_.address);
  cpu_uses(at, static_cast<int64_t>(bytes), CpuUse::WritesAll);
  std::memcpy(at, data, bytes);
  show(at, static_cast<int64_t>(bytes), false);
}

void BoardCore::end_planning() {
  const std::vector<uint8_t> queue(MAX_QUEUED_LAYERS * registers::DESCRIPTOR_BYTES);
  queue_ = keep(queue.data(), queue.size());
  check_memory();
}

void BoardCore::check_memory() const {
  if (used_ > memory_.size)
    fail_with("the model needs " + std::to_string(used_) + " bytes, the buffer " +
              settings_.memory + " has " + std::to_string(memory_.size) + ": load u-dma-buf with " +
              settings_.memory + "=" + std::to_string((used_ + PAGE - 1) / PAGE * PAGE));
  // Constants are written a single time, and the device only reads them.
  if (!lines_->device_uses(0, used_, false)) fail_with("the caches cannot be cleaned");
}

uint64_t BoardCore::offset_of(const void* data) const {
  return static_cast<uint64_t>(static_cast<const uint8_t*>(data) - memory_.data);
}

uint64_t BoardCore::show(const void* data, int64_t bytes, bool writable) {
  const uint64_t offset = offset_of(data);
  if (!lines_->device_uses(offset, static_cast<uint64_t>(bytes), writable))
    fail_with("the caches cannot be cleaned: " + std::string(std::strerror(errno)));
  return memory_.address + offset;
}

void BoardCore::cpu_uses(const void* data, int64_t bytes, CpuUse use) {
  if (!lines_->cpu_uses(offset_of(data), static_cast<uint64_t>(bytes), use))
    fail_with("the caches cannot be invalidated: " + std::string(std::strerror(errno)));
}

int BoardCore::idle(void* core) { return static_cast<BoardCore*>(core)->is_idle() ? 1 : 0; }

bool BoardCore::is_idle() { return (read(registers::CONTROL) & (registers::BUSY | registers::IDLE)) == registers::IDLE; }

// Abort the launch. The core is idle after its transfers, unless the memory does not respond.
void BoardCore::give_up() {
  const std::string limit = std::to_string(settings_.timeout_ms) + " ms";
  const std::string state = " (control " + hex(read(registers::CONTROL)) + ", cycles " +
                            std::to_string(read(registers::CYCLES)) + ")";
  write(registers::CONTROL, registers::ABORT);
  if (device_wait(idle, this, -1, settings_.timeout_ms) != 0)
    fail_with("not done within " + limit + state + ", and the abort does not end; check clock, "
              "reset and addresses, and load the bitstream again");
  fail_with("not done within " + limit + state + ", and aborted; increase --timeout, or check the "
            "memory port");
}

void BoardCore::wait() {
  const int status = device_wait(idle, this, interrupt_, settings_.timeout_ms);
  if (status < 0) fail_with(settings_.interrupt + ": " + device_error());
  if (status > 0) give_up();
  if (interrupt_ >= 0) write(registers::PENDING, 1);
  device_barrier();
}

}  // namespace ceras
