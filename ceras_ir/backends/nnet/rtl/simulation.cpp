// Simulate the core and the memory. A wrong address or a core that makes no progress terminates the
// program: these are faults of the circuit and not of the input.
#include "simulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "Vnnet_core.h"
#include "verilated.h"

namespace ceras {
namespace {

constexpr uint64_t MAX_IDLE_CYCLES = 10000000;  // cycles without a transfer
constexpr int MAX_BUS_BYTES = 16;
constexpr uint64_t PAGE = 1 << 16;
constexpr uint64_t FIRST = uint64_t{1} << 36;  // after all constants

struct Region {
  uint64_t address;
  uint8_t* data;
  int64_t bytes;
  bool writable;
};

constexpr unsigned char SLVERR = 2;

struct Burst {
  uint64_t address;
  int beats;
  bool fails;
  uint64_t ready;  // the first cycle in which data can arrive
};

[[noreturn]] void fail(const char* what, uint64_t number) {
  std::fprintf(stderr, "the circuit in Verilog %s %#llx\n", what,
               static_cast<unsigned long long>(number));
  std::exit(3);
}

}  // namespace

struct Simulation::State {
  VerilatedContext context;
  Vnnet_core top{&context};
  CoreSize size;
  std::vector<Region> regions;           // of the next launch
  std::vector<Region> constants;
  std::vector<std::vector<uint8_t>> kept;  // their bytes
  uint64_t next = FIRST, next_constant = PAGE, cycle = 0, quiet = 0, random = 1;
  std::deque<Burst> reads, writes;
  std::deque<std::pair<uint64_t, bool>> answers;  // the time, and whether it is an error
  uint64_t queue = 0;
  bool arready = false, awready = false, wready = false, rvalid = false, bvalid = false;

  bool waits(int percent) {
    if (percent == 0) return false;
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    return static_cast<int>((random * 2685821657736338717ULL) >> 33) % 100 < percent;
  }

  uint8_t* at(uint64_t address, bool writable) {
    for (const Region& r : regions)
      if (address >= r.address && address < r.address + static_cast<uint64_t>(r.bytes) &&
          (r.writable || !writable))
        return r.data + (address - r.address);
    const auto after = std::upper_bound(
        constants.begin(), constants.end(), address,
        [](uint64_t value, const Region& region) { return value < region.address; });
    if (writable || after == constants.begin()) return nullptr;
    const Region& r = *std::prev(after);
    return address - r.address < static_cast<uint64_t>(r.bytes) ? r.data + (address - r.address)
                                                                : nullptr;
  }

  void read_beat(uint64_t address) {
    uint8_t beat[MAX_BUS_BYTES];
    bool any = false;
    for (int i = 0; i < size.bus_bytes; ++i) {
      const uint8_t* from = at(address + static_cast<uint64_t>(i), false);
      beat[i] = from != nullptr ? *from : static_cast<uint8_t>(cycle * 73 + 41);
      any = any || from != nullptr;
    }
    if (!any) fail("reads at", address);
    std::memcpy(&top.m_rdata, beat, size.bus_bytes);
  }

  void write_beat(uint64_t address) {
    uint8_t beat[MAX_BUS_BYTES];
    std::memcpy(beat, &top.m_wdata, size.bus_bytes);
    for (int i = 0; i < size.bus_bytes; ++i) {
      if ((top.m_wstrb >> i & 1) == 0) continue;
      uint8_t* to = at(address + static_cast<uint64_t>(i), true);
      if (to == nullptr) fail("writes at", address + static_cast<uint64_t>(i));
      *to = beat[i];
    }
  }

  // Count down to the burst with an error.
  static bool fails(uint64_t& left) { return left != 0 && --left == 0; }

  // Simulate a cycle. No output of the core depends on an input of the same cycle.
  void tick(SimulatedMemory& m) {
    arready = !waits(m.stall) && reads.size() < 64;
    awready = !waits(m.stall) && writes.size() < 64;
    wready = !waits(m.stall);
    if (!rvalid)
      rvalid = !reads.empty() && reads.front().ready <= cycle && !waits(m.stall);
    if (!bvalid) bvalid = !answers.empty() && answers.front().first <= cycle && !waits(m.stall);
    top.m_arready = arready;
    top.m_awready = awready;
    top.m_wready = wready;
    top.m_rvalid = rvalid;
    top.m_bvalid = bvalid;
    bool moved = rvalid;
    if (rvalid) {
      Burst& burst = reads.front();
      read_beat(burst.address);
      burst.address += static_cast<unsigned>(size.bus_bytes);
      top.m_rresp = burst.fails ? SLVERR : 0;
      top.m_rlast = --burst.beats == 0;
      if (burst.beats == 0) reads.pop_front();
      rvalid = false;
    }
    if (bvalid) {
      top.m_bresp = answers.front().second ? SLVERR : 0;
      answers.pop_front();
      bvalid = false;
    }
    if (top.m_arvalid && arready) {
      if ((top.m_araddr & 4095) + (top.m_arlen + 1u) * static_cast<unsigned>(size.bus_bytes) > 4096)
        fail("crosses 4 KiB at", top.m_araddr);
      reads.push_back({top.m_araddr, top.m_arlen + 1, fails(m.failing_read), cycle + static_cast<uint64_t>(m.latency)});
    }
    if (top.m_awvalid && awready) {
      if ((top.m_awaddr & 4095) + (top.m_awlen + 1u) * static_cast<unsigned>(size.bus_bytes) > 4096)
        fail("crosses 4 KiB at", top.m_awaddr);
      writes.push_back({top.m_awaddr, top.m_awlen + 1, fails(m.failing_write), 0});
    }
    // Data can precede the address, and then waits.
    if (writes.empty()) top.m_wready = wready = false;
    if (top.m_wvalid && wready) {
      moved = true;
      Burst& burst = writes.front();
      write_beat(burst.address);
      burst.address += static_cast<unsigned>(size.bus_bytes);
      if (top.m_wlast != (--burst.beats == 0)) fail("ends a burst at", burst.address);
      if (burst.beats == 0) {
        answers.emplace_back(cycle + static_cast<uint64_t>(m.latency), burst.fails);
        writes.pop_front();
      }
    }
    top.clk = 1;
    top.eval();
    top.clk = 0;
    top.eval();
    ++cycle;
    quiet = moved ? 0 : quiet + 1;
    if (quiet > MAX_IDLE_CYCLES) fail("makes no progress since cycle", cycle - quiet);
  }

  // A valid signal remains until it is accepted. Both channels of a write are accepted together or
  // one after the other.
  void put(uint32_t word, uint32_t value, SimulatedMemory& m) {
    top.s_awvalid = top.s_wvalid = 1;
    top.s_awaddr = static_cast<uint16_t>(4 * word);
    top.s_wdata = value;
    top.s_wstrb = 15;
    top.s_bready = 1;
    while (top.s_awvalid || top.s_wvalid) {
      const bool address = top.s_awready, data = top.s_wready;
      tick(m);
      if (address) top.s_awvalid = 0;
      if (data) top.s_wvalid = 0;
    }
    while (!top.s_bvalid) tick(m);
    if (top.s_bresp != 0) fail("refuses a write at", 4 * word);
    tick(m);
  }

  uint32_t get(uint32_t word, SimulatedMemory& m) {
    top.s_arvalid = 1;
    top.s_araddr = static_cast<uint16_t>(4 * word);
    top.s_rready = 1;
    while (!top.s_arready) tick(m);
    tick(m);
    top.s_arvalid = 0;
    while (!top.s_rvalid) tick(m);
    const uint32_t value = top.s_rdata;
    if (top.s_rresp != 0) fail("refuses a read at", 4 * word);
    tick(m);
    return value;
  }
};

Simulation::Simulation() : state_(new State) {
  using namespace registers;
  State& s = *state_;
  s.top.clk = 0;
  s.top.rst = 1;
  for (int i = 0; i < 8; ++i) s.tick(memory);
  s.top.rst = 0;
  if (read(IDENTITY) != VERSION) fail("has other registers at", 4 * IDENTITY);
  s.size = read_size();
  write(GLOBAL_ENABLE, 1);
  write(ENABLE, 1);
}

Simulation::~Simulation() { state_->top.final(); }

const CoreSize& Simulation::size() const { return state_->size; }

void Simulation::begin() {
  state_->regions.clear();
  state_->next = FIRST;
}

uint64_t Simulation::show(const void* data, int64_t bytes, bool writable) {
  State& s = *state_;
  const auto low = reinterpret_cast<uintptr_t>(data) % 64;
  const uint64_t address = s.next + low;
  s.next = (address + static_cast<uint64_t>(bytes) + 2 * PAGE) / PAGE * PAGE;
  s.regions.push_back(
      {address, const_cast<uint8_t*>(static_cast<const uint8_t*>(data)), bytes, writable});
  return address;
}

void Simulation::show_at(uint64_t address, void* data, int64_t bytes) {
  state_->regions.push_back({address, static_cast<uint8_t*>(data), bytes, true});
}

void Simulation::forget() {
  state_->constants.clear();
  state_->kept.clear();
  state_->next_constant = PAGE;
  state_->queue = 0;
}

uint64_t Simulation::keep(const void* data, size_t bytes) {
  State& s = *state_;
  const uint8_t* from = static_cast<const uint8_t*>(data);
  s.kept.emplace_back(from, from + bytes);
  const uint64_t address = s.next_constant;
  s.next_constant = (address + bytes + 2 * PAGE) / PAGE * PAGE;
  s.constants.push_back({address, s.kept.back().data(), static_cast<int64_t>(bytes), false});
  return address;
}

void Simulation::replace(uint64_t address, const void* data, size_t bytes) {
  for (const Region& region : state_->constants)
    if (region.address == address && static_cast<size_t>(region.bytes) >= bytes) {
      std::memcpy(region.data, data, bytes);
      return;
    }
  fail("has no constants at", address);
}

uint32_t Simulation::read(uint32_t word) { return state_->get(word, memory); }

void Simulation::write(uint32_t word, uint32_t value) {
  State& s = *state_;
  if (word == registers::CONTROL) {
    s.random = memory.seed++ * 2 + 0x9e3779b97f4a7c15ULL;
    s.quiet = 0;
  }
  s.put(word, value, memory);
}

void Simulation::wait() {
  using namespace registers;
  State& s = *state_;
  while (!s.top.irq) s.tick(memory);
  write(PENDING, 1);
  const uint32_t state = read(CONTROL) & (BUSY | DONE | IDLE | READY);
  if (state != (DONE | IDLE | READY)) fail("is not done after the interrupt in cycle", s.cycle);
}

uint64_t Simulation::queue_address() {
  State& s = *state_;
  if (s.queue == 0) {
    const std::vector<uint8_t> room(MAX_QUEUED_LAYERS * registers::DESCRIPTOR_BYTES);
    s.queue = keep(room.data(), room.size());
  }
  return s.queue;
}

}  // namespace ceras
