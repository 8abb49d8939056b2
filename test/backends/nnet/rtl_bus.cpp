// The ports of the core, cycle by cycle: rules of AXI4 and AXI4-Lite, errors, aborts, resets, queues.
//
//   rtl_bus CHECK [SEED]
//
// The bench has its own memory and its own monitors. The results of launches are compared with the
// circuit in C++. The core has lanes of 4 and a bus of 8 bytes.
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>

#include "Vnnet_core.h"
#define AXI_TOP Vnnet_core
#define S(name) top.s_##name
#define M(name) top.m_##name
#define AXI_CLOCK top.clk
#define AXI_RESET(on) top.rst = (on)
#include "axi_bench.h"
#include "rtl_run.h"
#include "verilated.h"

namespace {

using namespace ceras;
using namespace ceras::registers;

constexpr uint64_t BASE = 0x310000000;
constexpr size_t BYTES = 1 << 18, INPUT_AT = 0, RESIDUAL_AT = 1 << 14, RESULT_AT = 1 << 15,
                 STREAM_AT = 1 << 16, QUEUE_AT = 1 << 17;
constexpr int8_t UNUSED = 0x55;
constexpr uint64_t PATIENCE = 200000;  // cycles

struct Bench : AxiBench {
  Bench() : AxiBench(BASE, BYTES) {}

  bool is_busy() { return (get(CONTROL) & BUSY) != 0; }

  // Wait until the core is idle.
  void settle() {
    for (const uint64_t start = cycle; is_busy();)
      if (cycle - start > PATIENCE) {
        fault("the core does not become idle", cycle);
        return;
      }
  }

  void write_layer(const LayerWords& words) {
    for (uint32_t i = 0; i < WORDS; ++i)
      if (put(LAYER + i, words[i]) != OKAY) fault("a register is not written", i);
  }
};

// A convolution of 3x3 with a residual, so that all clients of the bus work. The seed determines the
// bits of the weights.
struct Case {
  FpgaLinear layer{};
  CorePlan plan;
  std::vector<int8_t> input, residual, expected;

  explicit Case(unsigned seed) {
    std::mt19937 random(seed);
    const int size = 5 + static_cast<int>(random() % 3), channels = 7, outputs = 10;
    layer.window = {size, size, channels, size, size, 3, 3, 1, 1, 1, 1, 1, 1};
    layer.images = 1;
    layer.pixels = size * size;
    layer.outputs = outputs;
    layer.input_zero = 3;
    layer.residual_shift = 4;
    layer.rescale = {0, 7, false, -2, -128, 127};
    layer.input_pitch = channels;
    layer.residual_pitch = outputs;
    layer.result_pitch = outputs + 3;  // each pixel is a burst
    const auto drawn = [&random](int64_t count) {
      std::vector<int8_t> values(static_cast<size_t>(count));
      for (int8_t& value : values) value = static_cast<int8_t>(random());
      return values;
    };
    input = drawn(layer.pixels * channels);
    residual = drawn(layer.pixels * outputs);
    std::vector<int8_t> weights = drawn(int64_t{outputs} * 9 * channels);
    layer.weight_bits = bits_of(seed);
    narrow(weights, layer.weight_bits);
    const std::vector<int8_t> ordered = packed(layer, weights);
    std::vector<int32_t> constants(outputs);
    fpga_channel_constants(weights.data(), outputs, 9 * channels, nullptr, layer.input_zero,
                           constants.data());
    expected.assign(static_cast<size_t>((layer.pixels - 1) * layer.result_pitch + outputs), UNUSED);
    const auto buffers = std::make_unique<FpgaBuffers>();
    run_in_cpp(layer, input.data(), ordered.data(), constants.data(), nullptr, {}, residual.data(),
               expected.data(), *buffers);
    const CoreSize size_of_core{4, BUS, 32768, 8192, 16};
    plan = plan_linear(size_of_core, layer, ordered.data(), constants.data(), nullptr, {}, true);
    if (!plan.taken()) fault(plan.refused, seed);
  }

  // Place the operands, from `offset` on in each area of the memory.
  void place(Bench& bench, size_t offset = 0) {
    const auto copy = [&bench](size_t to, const void* from, size_t bytes) {
      std::memcpy(bench.memory.data() + to, from, bytes);
    };
    copy(INPUT_AT + offset, input.data(), input.size());
    copy(RESIDUAL_AT + offset, residual.data(), residual.size());
    copy(STREAM_AT + 8 * offset, plan.stream.data(), plan.stream.size());
    std::memset(bench.memory.data() + RESULT_AT + offset, UNUSED, expected.size());
    set_addresses(plan, BASE + INPUT_AT + offset, BASE + STREAM_AT + 8 * offset,
                  BASE + RESIDUAL_AT + offset, BASE + RESULT_AT + offset);
  }

  void compare(Bench& bench, const char* what, uint64_t number, size_t offset = 0) const {
    if (std::memcmp(bench.memory.data() + RESULT_AT + offset, expected.data(), expected.size()) != 0)
      fault(std::string(what) + ": the result is wrong", number);
  }
};

// A launch without errors has the right result.
void run_exactly(Bench& bench, Case& one, const char* what, uint64_t number) {
  one.place(bench);
  bench.write_layer(one.plan.words);
  if (bench.put(CONTROL, START) != OKAY) fault("a start is refused", number);
  bench.settle();
  if (const uint32_t status = bench.get(STATUS)) fault(std::string(what) + ": status", status);
  if (bench.get(LAUNCHES) != 1) fault("launches of a layer", bench.get(LAUNCHES));
  one.compare(bench, what, number);
}

void start(Bench& bench, Case& one) {
  one.place(bench);
  bench.write_layer(one.plan.words);
  bench.put(CONTROL, START);
}

// An error of the memory ends the launch with its bit, and the next launch is right.
void check_errors(Bench& bench, bool of_reads) {
  Case one(1);
  run_exactly(bench, one, "before", 0);
  const uint64_t bursts = of_reads ? bench.read_bursts : bench.write_bursts;
  if (bursts < 4) fault("the layer has few bursts", bursts);
  for (uint64_t i = 0; i < 12; ++i) {
    const uint64_t number = i * (bursts - 1) / 11 + 1;
    bench.error = i % 2 != 0 ? DECERR : SLVERR;
    (of_reads ? bench.bad_read : bench.bad_write) =
        (of_reads ? bench.read_bursts : bench.write_bursts) + number;
    bench.put(GLOBAL_ENABLE, 1);
    bench.put(ENABLE, 1);
    bench.put(PENDING, 1);
    start(bench, one);
    bench.settle();
    const uint32_t expected = of_reads ? READ_FAILED : WRITE_FAILED, status = bench.get(STATUS);
    if (status != expected) fault("an error of the memory: status", status);
    if (!bench.top.irq) fault("an error without interrupt", number);
    if (!bench.reads.empty() || !bench.writes.empty() || !bench.answers.empty())
      fault("the core is idle before its transfers end", number);
    bench.bad_read = bench.bad_write = 0;
    run_exactly(bench, one, "after an error", number);
  }
}

// Abort or reset the core at any time of a launch. The next launch is right.
void check_stops(Bench& bench, bool by_reset, unsigned seed) {
  Case one(seed);
  bench.random.seed(seed);
  bench.latency = 60;
  start(bench, one);
  const uint64_t begin = bench.cycle;
  bench.settle();
  const uint64_t length = bench.cycle - begin;
  for (int i = 0; i < 60; ++i) {
    bench.stall = static_cast<int>(bench.random() % 3) * 30;
    start(bench, one);
    bench.ticks(bench.random() % length);
    const bool was_done = (bench.get(CONTROL) & IDLE) != 0;
    const uint64_t reads = bench.reads.size();
    if (by_reset) {
      bench.top.core_rst = 1;
      bench.ticks(1 + bench.random() % 3);
      bench.top.core_rst = 0;
      bench.settle();
      for (const uint32_t word : {STATUS, CYCLES, LAUNCHES, PENDING, ENABLE, GLOBAL_ENABLE, LAYER,
                                  QUEUE_LENGTH, QUEUE_ADDRESS})
        if (word != CYCLES && bench.get(word) != 0) fault("a register after a reset", word);
    } else {
      if (bench.put(CONTROL, ABORT) != OKAY) fault("an abort is refused", reads);
      bench.settle();
      const uint32_t status = bench.get(STATUS);
      if (status != (was_done ? 0 : ABORTED) && status != 0) fault("an abort: status", status);
      if (status != 0 && (bench.get(PENDING) & 1) == 0) fault("an abort without interrupt", reads);
    }
    if (!bench.reads.empty() || !bench.writes.empty() || !bench.answers.empty())
      fault("the core is idle before its transfers end", reads);
    run_exactly(bench, one, by_reset ? "after a reset" : "after an abort", static_cast<uint64_t>(i));
  }
}

// Registers outside their limits are rejected without a transfer.
void check_limits(Bench& bench) {
  Case one(1);
  one.place(bench);
  const auto rejected = [&bench](uint32_t word, uint32_t value) {
    const uint64_t bursts = bench.read_bursts;
    bench.put(CONTROL, START);
    bench.settle();
    if (bench.get(STATUS) != REJECTED) fault("a register has the value " + std::to_string(value), word);
    if (bench.read_bursts != bursts) fault("a rejected launch reads memory", word);
  };
  rejected(0, 0);  // all registers after a reset
  bench.write_layer(one.plan.words);
  const Field needed[] = {INPUT_ROWS, HEIGHT, SLOTS, RING_BYTES, ROW_RUNS, RUN_BYTES, ROW_BYTES,
                          ROWS, COLUMNS, BLOCK_ROWS, BLOCK_COLUMNS, IMAGES, EXTENT, KERNEL_ROWS,
                          ROW_TAPS, RUN_TILES, OUTPUTS, OUTPUT_TILES, GROUP_TILES, STREAM_BYTES,
                          BLOCKS};
  const auto try_value = [&](int word, uint32_t value) {
    const uint32_t at = LAYER + static_cast<uint32_t>(word);
    bench.put(at, value);
    rejected(at, value);
    bench.put(at, one.plan.words[static_cast<size_t>(word)]);
  };
  for (const Field& field : needed) try_value(field.word, 0);
  try_value(INPUT_ADDRESS.word + 1, 0x100);
  try_value(RESULT_ADDRESS.word + 1, 0x80000000);
  try_value(MODE.word, 0x400);
  try_value(ROWS.word, 0x10000);
  try_value(FIRST_Y.word, 0x00800000);
  try_value(FIRST_Y.word, 0xff7fffff);
  try_value(COLUMN_STEP.word, 1u << 23);
  try_value(READS_APART.word, 0);
  try_value(READS_AFTER.word, (8u << 24) | (1u << 16));
  try_value(INPUT_SHIFT.word, (1u << 16) | 32);
  try_value(RING_BYTES.word, 32769);
  try_value(TABLE_BYTES.word, 4097);
  // The product of two registers: more pixels than a block has.
  bench.put(LAYER + static_cast<uint32_t>(BLOCK_ROWS.word), 17);
  bench.put(LAYER + static_cast<uint32_t>(BLOCK_COLUMNS.word), 16);
  bench.put(LAYER + static_cast<uint32_t>(ROWS.word), 64);
  bench.put(LAYER + static_cast<uint32_t>(COLUMNS.word), 64);
  bench.put(CONTROL, START);
  bench.settle();
  if (bench.get(STATUS) != REJECTED) fault("a block of 272 pixels", bench.get(STATUS));
  run_exactly(bench, one, "after rejected registers", 0);
  // A queue needs layers, and an address that is a multiple of the size of a layer.
  const uint32_t queues[][3] = {{0, 3, 0}, {128, 3, 1}, {0, 256, 1}};
  for (const auto& q : queues) {
    bench.put(QUEUE_ADDRESS, q[0]);
    bench.put(QUEUE_ADDRESS_HIGH, q[1]);
    bench.put(QUEUE_LENGTH, q[2]);
    bench.put(CONTROL, START_QUEUE);
    bench.settle();
    if (bench.get(STATUS) != REJECTED) fault("a queue of " + std::to_string(q[2]), q[0]);
  }
}

void check_strobes(Bench& bench) {
  for (int order = 0; order < 3; ++order)
    for (const uint32_t word : {LAYER, LAYER + WORDS - 1, QUEUE_LENGTH})
      for (unsigned strobes = 0; strobes < 16; ++strobes) {
        const uint32_t old = static_cast<uint32_t>(bench.random()),
                       value = static_cast<uint32_t>(bench.random());
        bench.put(word, old, 15, order);
        bench.put(word, value, strobes, order);
        uint32_t expected = old;
        for (int i = 0; i < 4; ++i)
          if (strobes >> i & 1)
            expected = (expected & ~(255u << 8 * i)) | (value & (255u << 8 * i));
        if (bench.get(word) != expected) fault("strobes", strobes);
      }
  // Without its byte, a write neither starts nor acknowledges.
  Case one(1);
  one.place(bench);
  bench.write_layer(one.plan.words);
  bench.put(CONTROL, START, 14);
  if (bench.is_busy()) fault("a start without its strobe", 0);
  bench.put(CONTROL, START);
  bench.settle();
  bench.put(PENDING, 1, 14);
  if ((bench.get(PENDING) & 1) == 0) fault("an acknowledgement without its strobe", 0);
  bench.put(PENDING, 1);
  if ((bench.get(PENDING) & 1) != 0) fault("an acknowledgement", 0);
}

void check_responses(Bench& bench) {
  Case one(1);
  one.place(bench);
  uint32_t value;
  const uint32_t read_only[] = {CYCLES, IDENTITY, BUILT_LANES, BUILT_TABLES, STATUS, LAUNCHES};
  for (const uint32_t word : read_only)
    if (bench.put(word, 1) != SLVERR) fault("a write of a read-only register", word);
  for (uint32_t word = QUEUE_LENGTH + 1; word < 128; ++word) {
    if (bench.put(word, 1) != SLVERR) fault("a write of no register", word);
    if (bench.get(word, value) != SLVERR) fault("a read of no register", word);
  }
  if (bench.get(IDENTITY) != VERSION) fault("the identity", bench.get(IDENTITY));
  bench.latency = 2000;
  start(bench, one);
  for (const uint32_t word : {LAYER, LAYER + WORDS - 1, QUEUE_ADDRESS, QUEUE_LENGTH}) {
    const uint32_t old = bench.get(word);
    if (bench.put(word, ~old) != SLVERR) fault("a write to a busy core", word);
    if (bench.get(word) != old) fault("a refused write has an effect", word);
  }
  if (bench.put(CONTROL, START) != SLVERR) fault("a second start", 0);
  if (bench.put(CONTROL, START_QUEUE) != SLVERR) fault("a second start of a queue", 0);
  if (bench.put(ENABLE, 1) != OKAY) fault("the interrupt of a busy core", 0);
  bench.settle();
  one.compare(bench, "a launch with refused writes", 0);
}

// An interrupt is never lost, whenever the previous one is acknowledged.
void check_interrupts(Bench& bench) {
  Case one(1);
  bench.stall = 0;
  bench.put(GLOBAL_ENABLE, 1);
  bench.put(ENABLE, 1);
  one.place(bench);
  bench.write_layer(one.plan.words);
  bench.put(CONTROL, START);
  uint64_t length = bench.cycle;
  bench.settle();
  length = bench.get(CYCLES);
  unsigned cleared = 0, kept = 0;
  for (uint64_t delay = length - 40; delay < length + 20; ++delay) {
    bench.put(PENDING, 1);
    bench.put(CONTROL, START);
    bench.seen_irq = false;
    bench.ticks(delay);
    bench.put(PENDING, 1);
    bench.settle();
    const bool pending = (bench.get(PENDING) & 1) != 0;
    if (!pending && !bench.seen_irq) fault("an interrupt is lost", delay);
    ++(pending ? kept : cleared);
  }
  if (kept == 0 || cleared == 0) fault("no acknowledgement next to the end", length);
}

void check_queue(Bench& bench, unsigned seed) {
  constexpr size_t COUNT = 5, APART = 1024;
  bench.random.seed(seed);
  std::vector<std::unique_ptr<Case>> cases;
  uint32_t alone = 0;
  bench.stall = 0;
  for (size_t i = 0; i < COUNT; ++i) {
    cases.push_back(std::make_unique<Case>(seed + static_cast<unsigned>(i)));
    run_exactly(bench, *cases.back(), "alone", i);
    alone += bench.get(CYCLES);
  }
  for (int round = 0; round < 6; ++round) {
    const bool timed = round == 0, breaks = round == 5;
    bench.stall = timed ? 0 : 30;
    std::memset(bench.memory.data() + QUEUE_AT, 0xff, COUNT * DESCRIPTOR_BYTES);
    for (size_t i = 0; i < COUNT; ++i) {
      cases[i]->place(bench, i * APART);
      LayerWords words = cases[i]->plan.words;
      if (breaks && i == 3) words[static_cast<size_t>(BLOCKS.word)] = 0;
      std::memcpy(bench.memory.data() + QUEUE_AT + i * DESCRIPTOR_BYTES, words.data(), sizeof words);
    }
    const uint64_t at = BASE + QUEUE_AT;
    bench.put(QUEUE_ADDRESS, static_cast<uint32_t>(at));
    bench.put(QUEUE_ADDRESS_HIGH, static_cast<uint32_t>(at >> 32));
    bench.put(QUEUE_LENGTH, COUNT);
    if (bench.put(CONTROL, START_QUEUE) != OKAY) fault("a queue is refused", 0);
    bench.settle();
    const uint32_t status = bench.get(STATUS), launches = bench.get(LAUNCHES);
    if (status != (breaks ? REJECTED : 0u)) fault("a queue: status", status);
    if (launches != (breaks ? 3 : COUNT)) fault("a queue: launches", launches);
    for (size_t i = 0; i < launches; ++i) cases[i]->compare(bench, "in a queue", i, i * APART);
    if (timed)
      std::printf("%u cycles per launch of a queue\n", (bench.get(CYCLES) - alone) /
                                                           static_cast<uint32_t>(COUNT));
  }
  run_exactly(bench, *cases[0], "after a queue", 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string check = argc > 1 ? argv[1] : "";
  const unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  const auto bench = std::make_unique<Bench>();
  bench->top.clk = 0;
  bench->reset();
  if (check == "paths") {
    Case one(seed);
    bench->probes = true;
    run_exactly(*bench, one, "with probes", 0);
  } else if (check == "read errors" || check == "write errors") {
    check_errors(*bench, check == "read errors");
  } else if (check == "aborts" || check == "resets") {
    check_stops(*bench, check == "resets", seed);
  } else if (check == "limits") {
    check_limits(*bench);
  } else if (check == "strobes") {
    check_strobes(*bench);
  } else if (check == "responses") {
    check_responses(*bench);
  } else if (check == "interrupts") {
    check_interrupts(*bench);
  } else if (check == "queue") {
    check_queue(*bench, seed);
  } else {
    return 2;
  }
  bench->top.final();
  std::printf("%s: %" PRIu64 " cycles, %d wrong\n", check.c_str(), bench->cycle, faults);
  return faults == 0 ? 0 : 1;
}
