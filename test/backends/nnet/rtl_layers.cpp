// Random layers through the circuits in Verilog and in C++: every byte of memory must agree.
//
//   rtl_layers FIRST LAYERS STALL LATENCY
//
// Layer number n is drawn from seed FIRST + n. STALL is of 100; with -1 it is drawn too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "rtl_run.h"

namespace {

using namespace ceras;

struct Draw {
  std::mt19937_64 random;
  int operator()(int low, int high) {
    return low + static_cast<int>(random() % static_cast<uint64_t>(high - low + 1));
  }
  bool one_in(int n) { return (*this)(1, n) == 1; }
};

// Numbers of all kinds, and often those at the ends of the range.
void fill(Draw& draw, std::vector<int8_t>& bytes) {
  const int kind = draw(0, 3);
  for (int8_t& b : bytes)
    b = static_cast<int8_t>(kind == 0 ? -128 : kind == 1 && draw.one_in(2) ? draw(0, 1) * 255 - 128
                                                                      : draw(-128, 127));
}

FpgaRescale rescale(Draw& draw, int sum_bits) {
  FpgaRescale r{};
  const int shift = draw.one_in(4) ? draw(-FPGA_MAX_LEFT_SHIFT, FPGA_MAX_SHIFT)
                                   : draw(0, sum_bits > 6 ? sum_bits - 6 : 1);
  r.left = shift < 0 ? -shift : 0;
  r.right = shift > 0 ? shift : 0;
  r.to_even = draw.one_in(2);
  r.zero_point = draw.one_in(2) ? 0 : draw(-128, 127);
  r.low = draw.one_in(2) ? -128 : draw(-128, 0);
  r.high = draw.one_in(2) ? 127 : draw(1, 127);
  return r;
}

// A window whose input is at least as large as it needs to be for one pixel of the result.
FpgaWindow window(Draw& draw, int channels, int most_pixels) {
  FpgaWindow w{};
  w.channels = channels;
  w.kernel_height = draw.one_in(3) ? 1 : draw(1, 5);
  w.kernel_width = draw.one_in(3) ? w.kernel_height : draw(1, 5);
  w.stride_y = draw.one_in(2) ? 1 : draw(1, 4);
  w.stride_x = draw.one_in(2) ? 1 : draw(1, 4);
  w.dilation_y = draw.one_in(4) ? draw(2, 3) : 1;
  w.dilation_x = draw.one_in(4) ? draw(2, 3) : 1;
  w.top = draw(0, w.kernel_height);
  w.left = draw(0, w.kernel_width);
  w.rows = draw(1, 20);
  w.columns = draw.one_in(8) ? draw(200, 600) : draw(1, 40);
  while (w.rows * w.columns > most_pixels && w.rows > 1) w.rows = (w.rows + 1) / 2;
  // The last window may leave the input, as padding below and to the right does.
  const int height = (w.rows - 1) * w.stride_y + (w.kernel_height - 1) * w.dilation_y + 1 - w.top;
  const int width = (w.columns - 1) * w.stride_x + (w.kernel_width - 1) * w.dilation_x + 1 - w.left;
  w.height = std::max(1, height - draw(0, 2));
  w.width = std::max(1, width - draw(0, 2));
  return w;
}

struct Cycles {
  uint64_t got;
  int64_t products;
  bool by_row;  // it has a table for each channel
  bool floats;
  bool narrow;  // weights of less than 8 bits
};

// One table of all channels, or a choice of several for each; of bytes or of floats.
struct DrawnTables {
  std::vector<uint8_t> entries, rows;
  int unit = 1;
  bool by_row = false;

  DrawnTables(Draw& draw, int channels) : rows(static_cast<size_t>(channels)) {
    unit = draw.one_in(3) ? 4 : 1;
    // Of floats a few more than a core of 16 tables has room for.
    const int count = draw.one_in(2) ? 1 : draw(2, unit == 1 ? FPGA_MAX_TABLES : 5);
    by_row = count > 1;
    entries.resize(static_cast<size_t>(256 * count * unit));
    for (uint8_t& entry : entries) entry = static_cast<uint8_t>(draw(0, 255));
    for (uint8_t& row : rows) row = static_cast<uint8_t>(draw(0, count - 1));
  }
  FpgaTables tables() const { return {entries.data(), by_row ? rows.data() : nullptr, unit}; }
};

int64_t bytes_of(int64_t pixels, int64_t pitch) { return pixels * pitch; }

bool linear(Draw& draw, Simulation& core, FpgaBuffers& buffers, bool by_channel, unsigned long seed,
            Cycles& cycles) {
  FpgaLinear layer{};
  const int channels = draw.one_in(4) ? draw(60, 300) : draw(1, 40);
  layer.by_channel = by_channel;
  layer.outputs = by_channel ? channels : draw.one_in(6) ? draw(100, 300) : draw(1, 48);
  layer.product = !by_channel && draw.one_in(3);
  layer.images = 1;
  if (layer.product) {
    layer.window.channels = draw.one_in(10) ? draw(1000, 3000) : channels;
    layer.pixels = draw.one_in(3) ? draw(1, 4) : draw(1, 700);
  } else {
    layer.window = window(draw, channels, 1200);
    layer.images = draw(1, 3);
    layer.pixels = layer.window.rows * layer.window.columns;
  }
  const FpgaWindow& w = layer.window;
  const int64_t products = products_of(layer);
  // The engine refuses rows that exceed the line buffer of the circuit in C++, too.
  const int64_t extent = (w.kernel_height - 1) * w.dilation_y + 1;
  const bool fits = layer.product || by_channel || extent * w.width * w.channels <= FPGA_LINE_BYTES;
  if (products > 20000 || !fits) return true;
  int bits = 14;
  while ((int64_t{1} << (bits - 14)) < products) ++bits;
  layer.input_zero = draw.one_in(2) ? 0 : draw(-128, 127);
  const bool has_residual = draw.one_in(3);
  layer.residual_zero = has_residual && draw.one_in(2) ? draw(-128, 127) : 0;
  layer.residual_shift = has_residual ? draw(0, 8) : 0;
  layer.rescale = rescale(draw, bits);
  const auto gap = [&draw] { return draw.one_in(3) ? draw(1, 37) : 0; };
  layer.input_pitch = w.channels + gap();
  layer.residual_pitch = layer.outputs + gap();
  const DrawnTables drawn(draw, layer.outputs);
  const bool looks_up = draw.one_in(2);
  const FpgaTables tables = looks_up ? drawn.tables() : FpgaTables{};
  cycles.by_row = looks_up && drawn.by_row;
  cycles.floats = looks_up && drawn.unit != 1;
  layer.result_pitch = (layer.outputs + gap()) * (cycles.floats ? drawn.unit : 1);
  const int64_t in = layer.product ? layer.pixels : int64_t{layer.images} * w.height * w.width;
  const int64_t out = layer.images * layer.pixels;
  const int before = draw(0, 70);  // places that are not words

  std::vector<int8_t> input(static_cast<size_t>(bytes_of(in, layer.input_pitch) + before));
  std::vector<int8_t> weights(static_cast<size_t>(layer.outputs * products));
  std::vector<int8_t> residual(static_cast<size_t>(bytes_of(out, layer.residual_pitch)));
  fill(draw, input);
  fill(draw, weights);
  // Computed weights come as they are, into a plan that was made of others.
  layer.computed = layer.product && seed % 2 == 1;
  if (!layer.computed) layer.weight_bits = bits_of(seed);
  narrow(weights, layer.weight_bits);
  cycles.narrow = layer.weight_bits < 8;
  fill(draw, residual);
  std::vector<int32_t> bias(static_cast<size_t>(layer.outputs)), constants(bias.size());
  for (int32_t& b : bias) b = draw(-(1 << (bits - 1)), 1 << (bits - 1));
  const std::vector<int8_t> ordered = packed(layer, weights);
  fpga_channel_constants(weights.data(), layer.outputs, products, bias.data(), layer.input_zero,
                         constants.data());
  std::vector<int8_t> shifts(bias.size());
  const int shared = layer.rescale.right - layer.rescale.left;
  for (int8_t& s : shifts)
    // A residual is shifted by as much more as its sum goes to the right.
    s = static_cast<int8_t>(has_residual      ? std::min(shared + draw(0, 14), 47)
                            : draw.one_in(4) ? draw(-8, 47)
                                              : draw(0, bits > 6 ? bits - 6 : 1));
  const int8_t* each = draw.one_in(2) ? shifts.data() : nullptr;

  std::vector<int8_t> expected(static_cast<size_t>(bytes_of(out, layer.result_pitch) + before), 77);
  std::vector<int8_t> got = expected;
  const int8_t* other = has_residual ? residual.data() : nullptr;
  run_in_cpp(layer, input.data() + before, ordered.data(), constants.data(), each, tables, other,
             expected.data() + before, buffers);
  const std::vector<int8_t> others(weights.size());
  CorePlan plan = plan_linear(core.size(), layer, layer.computed ? others.data() : ordered.data(),
                              constants.data(), each, tables, has_residual);
  if (layer.computed && plan.taken())
    refill_linear(core.size(), layer, weights.data(), constants.data(), each, tables, has_residual,
                  plan);
  cycles.got = run_layer(core, plan, input.data() + before, other, got.data() + before);
  cycles.products = out * products * layer.outputs;
  return cycles.got == 0 ||
         same(expected, got, by_channel ? "depthwise of seed" : "convolution of seed", seed);
}

bool pool(Draw& draw, Simulation& core, unsigned long seed, Cycles& cycles) {
  FpgaPool layer{};
  layer.window = window(draw, draw(1, 80), 600);
  const FpgaWindow& w = layer.window;
  layer.images = draw(1, 3);
  layer.average = draw.one_in(2);
  layer.input_zero = draw(-128, 127);
  layer.multiplier = 1 << draw(0, 6);
  layer.shift = draw(0, 20);
  layer.to_even = draw.one_in(2);
  layer.zero_point = draw(-128, 127);
  layer.low = draw(-128, 0);
  layer.high = draw(1, 127);
  layer.input_pitch = w.channels + (draw.one_in(3) ? draw(1, 20) : 0);
  layer.result_pitch = w.channels + (draw.one_in(3) ? draw(1, 20) : 0);
  std::vector<int8_t> input(
      static_cast<size_t>(bytes_of(int64_t{layer.images} * w.height * w.width, layer.input_pitch)));
  fill(draw, input);
  std::vector<int8_t> expected(
      static_cast<size_t>(bytes_of(int64_t{layer.images} * w.rows * w.columns, layer.result_pitch)),
      55);
  std::vector<int8_t> got = expected;
  fpga_pool_circuit(layer, input.data(), expected.data());
  cycles.got = run_layer(core, plan_pool(core.size(), layer), input.data(), nullptr, got.data());
  return cycles.got == 0 || same(expected, got, layer.average ? "average of seed" : "maximum of seed", seed);
}

bool add(Draw& draw, Simulation& core, unsigned long seed, Cycles& cycles) {
  FpgaAdd layer{};
  layer.lhs_zero = draw(-128, 127);
  layer.rhs_zero = draw(-128, 127);
  layer.lhs_shift = draw(0, 20);
  layer.rhs_shift = draw(0, 20);
  layer.rescale = rescale(draw, 8 + std::max(layer.lhs_shift, layer.rhs_shift));
  const bool gaps = draw.one_in(2);
  layer.rows = gaps ? draw(1, 300) : 1;
  layer.length = gaps ? draw(1, 200) : draw(1, 9000);
  layer.lhs_pitch = layer.length + (gaps ? draw(0, 20) : 0);
  layer.rhs_pitch = layer.length + (gaps ? draw(0, 20) : 0);
  layer.result_pitch = layer.length + (gaps ? draw(0, 20) : 0);
  std::vector<int8_t> lhs(static_cast<size_t>(bytes_of(layer.rows, layer.lhs_pitch)));
  std::vector<int8_t> rhs(static_cast<size_t>(bytes_of(layer.rows, layer.rhs_pitch)));
  fill(draw, lhs);
  fill(draw, rhs);
  // In one of two the sum lies where its first operand does.
  const bool over = layer.result_pitch == layer.lhs_pitch && draw.one_in(2);
  std::vector<int8_t> expected(static_cast<size_t>(bytes_of(layer.rows, layer.result_pitch)), 33);
  if (over) expected = lhs;
  std::vector<int8_t> got = expected;
  fpga_add_circuit(layer, over ? expected.data() : lhs.data(), rhs.data(), expected.data());
  cycles.got = run_layer(core, plan_add(core.size(), layer), over ? got.data() : lhs.data(), rhs.data(),
                   got.data());
  return cycles.got == 0 || same(expected, got, "sum of seed", seed);
}

bool look_up(Draw& draw, Simulation& core, unsigned long seed, Cycles& cycles) {
  FpgaLookup layer{};
  layer.rows = draw.one_in(3) ? draw(1, 4) : draw(1, 700);
  layer.channels = draw.one_in(4) ? draw(60, 300) : draw(1, 40);
  const DrawnTables drawn(draw, layer.channels);
  cycles.by_row = drawn.by_row;
  cycles.floats = drawn.unit != 1;
  layer.input_pitch = layer.channels + (draw.one_in(3) ? draw(1, 20) : 0);
  layer.result_pitch = (layer.channels + (draw.one_in(3) ? draw(1, 20) : 0)) * drawn.unit;
  std::vector<int8_t> input(static_cast<size_t>(bytes_of(layer.rows, layer.input_pitch)));
  fill(draw, input);
  // In one of two the bytes lie where those do that were looked up.
  const bool over = layer.result_pitch == layer.input_pitch && !cycles.floats && draw.one_in(2);
  std::vector<int8_t> expected(static_cast<size_t>(bytes_of(layer.rows, layer.result_pitch)), 21);
  if (over) expected = input;
  std::vector<int8_t> got = expected;
  const FpgaTables tables = drawn.tables();
  fpga_lookup_circuit(layer, tables, over ? expected.data() : input.data(), expected.data());
  cycles.got = run_layer(core, plan_lookup(core.size(), layer, tables),
                         over ? got.data() : input.data(), nullptr, got.data());
  return cycles.got == 0 || same(expected, got, "lookup of seed", seed);
}

// A slice, a transposed tensor or a repeated one of four dimensions, with gaps on either side.
bool move(Draw& draw, Simulation& core, unsigned long seed, Cycles& cycles) {
  const int unit = draw.one_in(3) ? 4 : 1;
  const int channels = draw.one_in(5) ? draw(60, 200) : draw(1, 40);
  const int shape[] = {draw(1, 2), draw(1, 20), channels < 10 ? draw(1, 400) : draw(1, 20),
                       channels};
  int64_t stride[4];
  stride[3] = unit;
  stride[2] = (channels + (draw.one_in(3) ? draw(1, 30) : 0)) * unit;
  stride[1] = stride[2] * shape[2];
  stride[0] = stride[1] * shape[1];
  FpgaMove box{};
  box.unit = unit;
  int order[] = {0, 1, 2, 3};
  int64_t start = 0;
  const int kind = draw(0, 2);
  for (int i = 0; i < FPGA_BOX; ++i) box.dims[i] = 1;
  if (kind == 0) {
    for (int d = 0; d < 4; ++d) {
      const int begin = draw.one_in(2) ? 0 : draw(0, shape[d] - 1);
      const int step = draw.one_in(3) ? draw(2, 3) : 1, most = (shape[d] - 1 - begin) / step + 1;
      start += begin * stride[d];
      box.dims[d + 2] = draw.one_in(2) ? most : draw(1, most);
      box.from[d + 2] = step * stride[d];
    }
  } else if (kind == 1) {
    std::shuffle(order, order + 4, draw.random);
    for (int d = 0; d < 4; ++d) {
      box.dims[d + 2] = shape[order[d]];
      box.from[d + 2] = stride[order[d]];
    }
  } else {
    const int at[] = {0, 1, 3, 5};
    for (int d = 0; d < 4; ++d) {
      box.dims[at[d]] = shape[d];
      box.from[at[d]] = stride[d];
    }
    box.dims[2] = draw(1, 3);
    box.dims[4] = draw.one_in(6) ? draw(100, 300) : draw(1, 3);
  }
  // Without a dimension the next element would be behind the last.
  if (box.dims[FPGA_BOX - 1] == 1) box.from[FPGA_BOX - 1] = unit;
  int64_t next = unit;
  for (int d = FPGA_BOX - 1; d >= 0; --d) {
    box.to[d] = next;
    next *= box.dims[d];
    if (d == FPGA_BOX - 1 && draw.one_in(3)) next += draw(1, 30) * unit;
  }
  std::vector<int8_t> input(static_cast<size_t>(stride[0] * shape[0]));
  fill(draw, input);
  const int before = draw(0, 70);
  std::vector<int8_t> expected(static_cast<size_t>(next + before), 66), got = expected;
  fpga_move_circuit(box, input.data() + start, expected.data() + before);
  const MovePlan plan = plan_move(core.size(), box);
  for (const Place& place : plan.places)
    cycles.got += run_layer(core, plan.plan, input.data() + start + place.input, nullptr,
                            got.data() + before + place.result);
  return cycles.got == 0 || same(expected, got, "move of seed", seed);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const unsigned long first = std::strtoul(argv[1], nullptr, 10);
  const unsigned long count = std::strtoul(argv[2], nullptr, 10);
  const int stall = std::atoi(argv[3]);
  const auto buffers = std::make_unique<FpgaBuffers>();
  Simulation core;
  unsigned long ran = 0, by_row = 0, floats = 0, moved = 0, narrow = 0, wrong = 0;
  uint64_t cycles = 0;
  for (unsigned long seed = first; seed < first + count; ++seed) {
    Draw draw{std::mt19937_64(seed)};
    core.memory = {std::atoi(argv[4]), stall < 0 ? draw(0, 1) * draw(0, 70) : stall, seed};
    Cycles each{};
    const int kind = draw(0, 11);
    const bool good = kind == 0   ? pool(draw, core, seed, each)
                      : kind == 1 ? add(draw, core, seed, each)
                      : kind == 2 ? look_up(draw, core, seed, each)
                      : kind < 5  ? move(draw, core, seed, each)
                                  : linear(draw, core, *buffers, kind < 7, seed, each);
    if (!good) ++wrong;
    ran += each.got != 0;
    by_row += each.got != 0 && each.by_row;
    floats += each.got != 0 && each.floats;
    narrow += each.got != 0 && each.narrow;
    moved += each.got != 0 && (kind == 3 || kind == 4);
    cycles += each.got;
  }
  std::printf("%lu layers ran, %lu with tables by channel, %lu of floats, %lu moves, "
              "%lu with narrow weights, %lu not taken, %lu wrong, %llu cycles\n",
              ran, by_row, floats, moved, narrow, count - ran, wrong,
              static_cast<unsigned long long>(cycles));
  return wrong == 0 ? 0 : 1;
}
