// Run the FPGA side of the network on golden data, in one memory image that both sides share.
//
//   testbench FOLDER    with weights.bin, biases.bin, shifts.bin, tables.bin and golden.bin
//
// golden.bin is what happens to that memory, in order: `write` is what the CPU puts there for
// the FPGA; `step` runs a step, whose result must be these bytes. Status 1 if one differs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "steps.h"

namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

// A record of golden.bin; its bytes follow.
struct Record {
  uint32_t is_step;
  uint32_t step;
  uint64_t offset;
  uint64_t rows;
  uint64_t width;  // bytes of a row
  uint64_t pitch;  // from one row to the next
};

int fail(const std::string& reason) {
  std::fprintf(stderr, "testbench: %s\n", reason.c_str());
  return 1;
}

template <class Value>
bool read_values(std::FILE* file, size_t count, std::vector<Value>& values) {
  values.assign(count, Value{});
  return std::fread(values.data(), sizeof(Value), count, file) == count;
}

// The constants of one step, as the circuit takes them.
struct Constants {
  std::vector<int8_t> weights;
  std::vector<int32_t> channels;
  std::vector<int8_t> shifts;
  std::vector<uint8_t> tables;
  std::vector<uint8_t> rows;
};

bool read_constants(const std::string& folder, std::vector<Constants>& all) {
  const File weights(std::fopen((folder + "/weights.bin").c_str(), "rb"));
  const File biases(std::fopen((folder + "/biases.bin").c_str(), "rb"));
  const File shifts(std::fopen((folder + "/shifts.bin").c_str(), "rb"));
  const File tables(std::fopen((folder + "/tables.bin").c_str(), "rb"));
  if (!weights || !biases || !shifts || !tables) return false;
  for (int i = 0; i < ceras::STEP_COUNT; ++i) {
    const ceras::Step& step = ceras::STEPS[i];
    Constants& own = all[static_cast<size_t>(i)];
    if (!read_values(tables.get(), static_cast<size_t>(step.tables * 256 * step.entry_bytes),
                     own.tables) ||
        !read_values(tables.get(), static_cast<size_t>(step.table_rows), own.rows))
      return false;
    const bool depthwise = step.circuit == ceras::Circuit::Depthwise;
    if (step.circuit != ceras::Circuit::Linear && !depthwise) continue;
    const int64_t outputs = step.linear.outputs;
    std::vector<int8_t> plain;
    std::vector<int32_t> bias;
    if (!read_values(weights.get(), static_cast<size_t>(outputs * step.products), plain) ||
        !read_values(biases.get(), static_cast<size_t>(outputs), bias) ||
        !read_values(shifts.get(), step.has_shifts ? static_cast<size_t>(outputs) : 0, own.shifts))
      return false;
    own.weights.assign(static_cast<size_t>(ceras::fpga_weight_bytes(outputs, step.products)), 0);
    (depthwise ? ceras::fpga_pack_depthwise : ceras::fpga_pack_weights)(
        plain.data(), outputs, step.products, own.weights.data());
    own.channels.assign(bias.size(), 0);
    ceras::fpga_channel_constants(plain.data(), outputs, step.products, bias.data(),
                                  step.linear.input_zero, own.channels.data());
  }
  return std::fgetc(weights.get()) == EOF && std::fgetc(biases.get()) == EOF &&
         std::fgetc(shifts.get()) == EOF && std::fgetc(tables.get()) == EOF;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::vector<Constants> constants(static_cast<size_t>(ceras::STEP_COUNT));
  if (!read_constants(folder, constants)) return fail("constants are not whole");
  const File golden(std::fopen((folder + "/golden.bin").c_str(), "rb"));
  if (!golden) return fail("golden.bin cannot be read");
  // Garbage at first, so that a step that reads what nobody wrote shows.
  std::vector<int8_t> memory(static_cast<size_t>(ceras::MEMORY_BYTES), int8_t{-91});

  int done = 0;
  unsigned long long written = 0, compared = 0;
  Record record;
  std::vector<int8_t> bytes;
  while (std::fread(&record, sizeof record, 1, golden.get()) == 1) {
    const uint64_t size = memory.size();
    if (record.rows == 0 || record.rows > size || record.width > size || record.pitch > size ||
        record.offset > size ||
        (record.rows - 1) * record.pitch + record.width > size - record.offset ||
        !read_values(golden.get(), static_cast<size_t>(record.rows * record.width), bytes))
      return fail("golden.bin is damaged");
    int8_t* at = memory.data() + record.offset;
    // Where byte i of the record is in memory.
    const auto place = [&](size_t i) { return i / record.width * record.pitch + i % record.width; };
    if (record.is_step == 0) {
      for (size_t i = 0; i < bytes.size(); ++i) at[place(i)] = bytes[i];
      written += bytes.size();
      continue;
    }
    if (static_cast<int>(record.step) != done || done >= ceras::STEP_COUNT)
      return fail("golden.bin has its steps out of order");
    const Constants& own = constants[record.step];
    ceras_fpga(done, memory.data(), own.weights.data(), own.channels.data(),
               own.shifts.data(), own.tables.data(), own.rows.data());
    for (size_t i = 0; i < bytes.size(); ++i)
      if (at[place(i)] != bytes[i])
        return fail("step " + std::to_string(done) + " '" + ceras::STEP_NAMES[done] +
                    "' differs at " + std::to_string(i) + ": got " + std::to_string(at[place(i)]) +
                    ", expected " + std::to_string(bytes[i]));
    compared += bytes.size();
    ++done;
  }
  if (done != ceras::STEP_COUNT) return fail("golden.bin has too few steps");
  std::printf("%d steps equal, %llu bytes compared, %llu bytes written by the CPU for the FPGA\n",
              done, compared, written);
  return 0;
}
