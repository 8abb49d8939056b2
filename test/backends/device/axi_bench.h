// A bus master for the registers of a core and a memory at its port, cycle by cycle: rules of AXI4 and
// AXI4-Lite, random waits, errors. The program defines these macros before it includes this file:
// AXI_TOP is the class of the simulated module, S(name) and M(name) are its ports for registers and
// memory, AXI_CLOCK is its clock, AXI_RESET(on) sets its reset. The memory port has 8 bytes.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

constexpr int BUS = 8;
constexpr unsigned OKAY = 0, SLVERR = 2, DECERR = 3;

int faults = 0;

void fault(const std::string& what, uint64_t number) {
  if (++faults <= 10) std::printf("%s (%" PRIu64 ")\n", what.c_str(), number);
}

// A channel of which the core is the source: VALID and payload remain until READY.
struct Held {
  const char* name;
  bool valid = false;
  std::vector<uint64_t> payload;

  void see(bool now, bool ready, const std::vector<uint64_t>& data, uint64_t cycle) {
    if (valid && !now) fault(std::string(name) + " withdraws VALID", cycle);
    if (valid && now && data != payload) fault(std::string(name) + " changes a payload", cycle);
    valid = now && !ready;
    payload = data;
  }
};

struct AxiBench {
  VerilatedContext context;
  AXI_TOP top{&context};
  const uint64_t base;
  std::vector<uint8_t> memory;
  std::mt19937 random{1};
  struct Burst {
    uint64_t address;
    int beats;
    uint64_t ready;
    unsigned response;
  };
  std::deque<Burst> reads, writes;
  std::deque<std::pair<uint64_t, unsigned>> answers;
  Held ar{"AR"}, aw{"AW"}, w{"W"}, b{"B"}, r{"R"};
  uint64_t cycle = 0, read_bursts = 0, write_bursts = 0;
  uint64_t bad_read = 0, bad_write = 0;  // the burst with an error, from 1
  unsigned error = SLVERR;
  int stall = 20, latency = 12;
  bool r_waits = false, b_waits = false, seen_irq = false, probes = false, in_reset = false;

  AxiBench(uint64_t address, size_t bytes) : base(address), memory(bytes) {}

  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

  // All outputs, to find combinational paths.
  std::vector<uint64_t> outputs() {
    return {top.irq, S(awready), S(wready), S(bvalid), S(bresp), S(arready),
            S(rvalid), S(rdata), S(rresp), M(arvalid), M(araddr), M(arlen),
            M(rready), M(awvalid), M(awaddr), M(awlen), M(wvalid), M(wdata),
            M(wstrb), M(wlast), M(bready)};
  }

  // No output changes if inputs change without a clock edge.
  void probe() {
    const std::vector<uint64_t> expected = outputs();
    const auto saved = std::make_tuple(
        S(awvalid), S(awaddr), S(wvalid), S(wdata), S(wstrb), S(bready),
        S(arvalid), S(araddr), S(rready), M(arready), M(rvalid), M(rdata),
        M(rlast), M(rresp), M(awready), M(wready), M(bvalid), M(bresp));
    for (int i = 0; i < 4; ++i) {
      const uint32_t bits = static_cast<uint32_t>(random());
      S(awvalid) = bits & 1, S(wvalid) = bits >> 1 & 1, S(bready) = bits >> 2 & 1;
      S(arvalid) = bits >> 3 & 1, S(rready) = bits >> 4 & 1, M(arready) = bits >> 5 & 1;
      M(rvalid) = bits >> 6 & 1, M(rlast) = bits >> 7 & 1, M(rresp) = bits >> 8 & 3;
      M(awready) = bits >> 10 & 1, M(wready) = bits >> 11 & 1;
      M(bvalid) = bits >> 12 & 1, M(bresp) = bits >> 13 & 3, S(wstrb) = bits >> 15 & 15;
      S(awaddr) = S(araddr) = static_cast<uint16_t>(4 * (bits >> 19 & 127));
      S(wdata) = static_cast<uint32_t>(random());
      top.eval();
      if (outputs() != expected) fault("an output depends on an input of its cycle", cycle);
    }
    std::tie(S(awvalid), S(awaddr), S(wvalid), S(wdata), S(wstrb), S(bready),
             S(arvalid), S(araddr), S(rready), M(arready), M(rvalid), M(rdata),
             M(rlast), M(rresp), M(awready), M(wready), M(bvalid), M(bresp)) =
        saved;
    top.eval();
  }

  uint8_t* at(uint64_t address) {
    if (address >= base && address < base + memory.size()) return memory.data() + (address - base);
    fault("an address is not in memory", address);
    return memory.data();
  }

  void check_burst(uint64_t address, unsigned length) {
    if (address % 4096 + (length + 1) * BUS > 4096) fault("a burst crosses 4 KiB", address);
  }

  void tick() {
    M(arready) = !chance(stall);
    M(awready) = !chance(stall);
    M(wready) = !writes.empty() && !chance(stall);
    // The memory keeps its VALID, too.
    const bool r_valid =
        !reads.empty() && reads.front().ready <= cycle && (r_waits || !chance(stall));
    const bool b_valid =
        !answers.empty() && answers.front().first <= cycle && (b_waits || !chance(stall));
    M(rvalid) = r_valid;
    M(bvalid) = b_valid;
    if (r_valid) {
      std::memcpy(&M(rdata), at(reads.front().address), BUS);
      M(rresp) = static_cast<uint8_t>(reads.front().response);
      M(rlast) = reads.front().beats == 1;
    }
    if (b_valid) M(bresp) = static_cast<uint8_t>(answers.front().second);
    top.eval();
    if (probes) probe();
    if (!in_reset) {
      ar.see(M(arvalid), M(arready), {M(araddr), M(arlen)}, cycle);
      aw.see(M(awvalid), M(awready), {M(awaddr), M(awlen)}, cycle);
      w.see(M(wvalid), M(wready), {M(wdata), M(wstrb), M(wlast)}, cycle);
      b.see(S(bvalid), S(bready), {S(bresp)}, cycle);
      r.see(S(rvalid), S(rready), {S(rdata), S(rresp)}, cycle);
    }
    seen_irq = seen_irq || top.irq;
    r_waits = r_valid && !M(rready);
    b_waits = b_valid && !M(bready);
    if (r_valid && M(rready)) {
      reads.front().address += BUS;
      if (--reads.front().beats == 0) reads.pop_front();
    }
    if (b_valid && M(bready)) answers.pop_front();
    if (M(wvalid) && M(wready)) {
      Burst& burst = writes.front();
      for (int i = 0; i < BUS; ++i)
        if (M(wstrb) >> i & 1)
          *at(burst.address + static_cast<uint64_t>(i)) =
              static_cast<uint8_t>(M(wdata) >> 8 * i);
      burst.address += BUS;
      if (M(wlast) != (--burst.beats == 0)) fault("WLAST is wrong", cycle);
      if (burst.beats == 0) {
        answers.emplace_back(cycle + static_cast<uint64_t>(latency), burst.response);
        writes.pop_front();
      }
    }
    if (M(arvalid) && M(arready) && !in_reset) {
      check_burst(M(araddr), M(arlen));
      reads.push_back({M(araddr), M(arlen) + 1, cycle + static_cast<uint64_t>(latency),
                       ++read_bursts == bad_read ? error : OKAY});
    }
    if (M(awvalid) && M(awready) && !in_reset) {
      check_burst(M(awaddr), M(awlen));
      writes.push_back(
          {M(awaddr), M(awlen) + 1, 0, ++write_bursts == bad_write ? error : OKAY});
    }
    AXI_CLOCK = 1;
    top.eval();
    AXI_CLOCK = 0;
    top.eval();
    ++cycle;
  }

  void ticks(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) tick();
  }

  // The response to a write. `order` 0: both channels together, 1: the address first, 2: the data.
  unsigned put(uint32_t word, uint32_t value, unsigned strobes = 15, int order = 0) {
    S(awaddr) = static_cast<uint16_t>(4 * word);
    S(wdata) = value;
    S(wstrb) = static_cast<uint8_t>(strobes);
    bool address = true, data = true;
    S(bready) = !chance(stall);
    for (uint64_t start = cycle; address || data;) {
      S(awvalid) = address && (order != 2 || !data);
      S(wvalid) = data && (order != 1 || !address);
      const bool a = S(awvalid) && S(awready), d = S(wvalid) && S(wready);
      tick();
      address = address && !a;
      data = data && !d;
      if (cycle - start > 1000) {
        fault("a write of a register is not accepted", word);
        break;
      }
    }
    S(awvalid) = S(wvalid) = 0;
    for (uint64_t start = cycle;;) {
      const bool valid = S(bvalid);
      S(bready) = !chance(stall);
      const unsigned response = S(bresp);
      const bool taken = valid && S(bready);
      tick();
      if (taken) return response;
      if (cycle - start > 1000) {
        fault("a write of a register is not answered", word);
        return 4;
      }
    }
  }

  unsigned get(uint32_t word, uint32_t& value) {
    S(araddr) = static_cast<uint16_t>(4 * word);
    S(rready) = 0;
    for (uint64_t start = cycle; cycle - start < 1000;) {
      S(arvalid) = 1;
      const bool taken = S(arready);
      tick();
      if (taken) break;
    }
    S(arvalid) = 0;
    for (uint64_t start = cycle; cycle - start < 1000;) {
      const bool valid = S(rvalid);
      S(rready) = !chance(stall);
      const unsigned response = S(rresp);
      value = S(rdata);
      const bool taken = valid && S(rready);
      tick();
      if (taken) return response;
    }
    fault("a read of a register is not answered", word);
    return 4;
  }

  uint32_t get(uint32_t word) {
    uint32_t value = 0;
    if (get(word, value) != OKAY) fault("a read of a register is refused", word);
    return value;
  }

  // Reset the core with its memory port.
  void reset() {
    AXI_RESET(1);
    in_reset = true;
    ticks(4);
    AXI_RESET(0);
    in_reset = false;
    reads.clear();
    writes.clear();
    answers.clear();
    r_waits = b_waits = false;
    ar.valid = aw.valid = w.valid = b.valid = r.valid = false;
  }
};

}  // namespace
