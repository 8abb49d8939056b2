// Registers of the core at the greatest numbers that they take, and at one more.
//
// At the limit the layer runs in the Verilog and every byte agrees with the circuit in C++; beyond it
// the plan is refused by the name of the register. The core has lanes of 4 and a line buffer of
// 262,144 bytes.
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "rtl_run.h"

namespace {

using namespace ceras;

constexpr int POSITIONS = (1 << 22) - 16;  // in a row, with four tiles of 4 lanes to spare

struct Limit {
  const char* name;    // in the refusal
  int64_t most;        // that runs
  std::function<void(FpgaLinear&, int)> set;
  bool residual = false;
};

FpgaLinear one_pixel() {
  FpgaLinear layer{};
  layer.window = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1};
  layer.images = 1;
  layer.outputs = 3;
  layer.input_zero = 5;
  layer.rescale = {0, 3, false, -7, -128, 127};
  return layer;
}

void settle(FpgaLinear& layer) {
  const FpgaWindow& w = layer.window;
  layer.pixels = int64_t{w.rows} * w.columns;
  if (layer.input_pitch == 0) layer.input_pitch = w.channels;
  if (layer.residual_pitch == 0) layer.residual_pitch = layer.outputs;
  if (layer.result_pitch == 0) layer.result_pitch = layer.outputs;
}

std::vector<int8_t> drawn(int64_t bytes) {
  std::mt19937 random(1);
  std::vector<int8_t> values(static_cast<size_t>(bytes));
  for (int8_t& value : values) value = static_cast<int8_t>(random());
  return values;
}

CorePlan plan_of(Simulation& core, const Limit& limit, FpgaLinear& layer, int64_t value) {
  limit.set(layer, static_cast<int>(value));
  settle(layer);
  const std::vector<int8_t> weights(
      static_cast<size_t>(fpga_weight_bytes(layer.outputs, products_of(layer))));
  const std::vector<int32_t> constants(static_cast<size_t>(layer.outputs));
  return plan_linear(core.size(), layer, weights.data(), constants.data(), nullptr, {},
                     limit.residual);
}

bool runs(Simulation& core, FpgaBuffers& buffers, const Limit& limit, unsigned long number) {
  FpgaLinear layer = one_pixel();
  if (!plan_of(core, limit, layer, limit.most).taken()) {
    std::printf("%s of %lld is refused: %s\n", limit.name, static_cast<long long>(limit.most),
                plan_of(core, limit, layer, limit.most).refused.c_str());
    return false;
  }
  const FpgaWindow& w = layer.window;
  const int64_t products = products_of(layer);
  const int64_t in = int64_t{layer.images} * w.height * w.width, out = layer.images * layer.pixels;
  const std::vector<int8_t> input = drawn(in * layer.input_pitch);
  const std::vector<int8_t> residual = drawn(limit.residual ? out * layer.residual_pitch : 0);
  const std::vector<int8_t> weights = drawn(layer.outputs * products);
  std::vector<int32_t> constants(static_cast<size_t>(layer.outputs));
  const std::vector<int8_t> ordered = packed(layer, weights);
  fpga_channel_constants(weights.data(), layer.outputs, products, nullptr, layer.input_zero,
                         constants.data());
  std::vector<int8_t> expected(static_cast<size_t>(out * layer.result_pitch), 9), got = expected;
  const int8_t* other = limit.residual ? residual.data() : nullptr;
  run_in_cpp(layer, input.data(), ordered.data(), constants.data(), nullptr, {}, other,
             expected.data(), buffers);
  const CorePlan plan = plan_linear(core.size(), layer, ordered.data(), constants.data(), nullptr,
                                    {}, limit.residual);
  run_layer(core, plan, input.data(), other, got.data());
  return same(expected, got, limit.name, number);
}

bool is_refused(Simulation& core, const Limit& limit) {
  FpgaLinear layer = one_pixel();
  const CorePlan plan = plan_of(core, limit, layer, limit.most + 1);
  if (!plan.taken() && std::strstr(plan.refused.c_str(), limit.name) != nullptr) return true;
  std::printf("%s of %lld: %s\n", limit.name, static_cast<long long>(limit.most + 1),
              plan.taken() ? "is taken" : plan.refused.c_str());
  return false;
}

// What is moved or looked up at most, as `most` says it, and what is refused beyond.
struct ValueLimit {
  const char* reason;
  int most;
  std::function<FpgaMove(int)> move;  // null: so many tables of floats
};

// Runs in Verilog as in C++; or the reason why the core does not take it.
std::string run_values(Simulation& core, const ValueLimit& limit, int value) {
  FpgaMove move{};
  const int bytes = 1 << 16;
  const std::vector<int8_t> input = drawn(bytes), entries = drawn(256 * 4 * value);
  std::vector<int8_t> expected(static_cast<size_t>(4 * bytes), 9), got = expected;
  MovePlan plan{{}, {{0, 0}}};
  if (limit.move) {
    move = limit.move(value);
    plan = plan_move(core.size(), move);
    fpga_move_circuit(move, input.data(), expected.data());
  } else {
    std::vector<uint8_t> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(static_cast<uint8_t>(i % value));
    const FpgaTables tables{reinterpret_cast<const uint8_t*>(entries.data()), rows.data(), 4};
    const FpgaLookup layer{30, 40, 41, 170};
    plan.plan = plan_lookup(core.size(), layer, tables);
    fpga_lookup_circuit(layer, tables, input.data(), expected.data());
  }
  if (!plan.plan.taken()) return plan.plan.refused;
  for (const Place& place : plan.places)
    run_layer(core, plan.plan, input.data() + place.input, nullptr, got.data() + place.result);
  return same(expected, got, limit.reason, static_cast<unsigned long>(value)) ? "" : "it is wrong";
}

FpgaMove repeated(int times) {
  return {{1, 1, 1, 3, times, 5}, {0, 0, 0, 5, 0, 1}, {0, 0, 0, 5 * times, 5, 1}, 1};
}

// Two rows of 3 pixels, which no launch has together: between them the result has a gap.
FpgaMove launched(int times) {
  return {{1, 1, times, 2, 3, 4}, {0, 0, 99, 40, 7, 1}, {0, 0, 500, 200, 4, 1}, 1};
}

bool holds(Simulation& core, const ValueLimit& limit) {
  const std::string at_most = run_values(core, limit, limit.most);
  const std::string beyond = run_values(core, limit, limit.most + 1);
  if (at_most.empty() && beyond.find(limit.reason) != std::string::npos) return true;
  std::printf("%s: '%s' for %d, '%s' for one more\n", limit.reason, at_most.c_str(), limit.most,
              beyond.c_str());
  return false;
}

}  // namespace

int main() {
  const Limit limits[] = {
      {"the register 'rows'", 65535, [](FpgaLinear& l, int n) { l.window.rows = l.window.height = n; }},
      {"the register 'columns'", 65535, [](FpgaLinear& l, int n) { l.window.columns = l.window.width = n; }},
      {"the register 'images'", 65535, [](FpgaLinear& l, int n) { l.images = n; }},
      {"the register 'height'", (1 << 23) - 1, [](FpgaLinear& l, int n) { l.window.height = n; }},
      {"the register 'stride_y'", 65535,
       [](FpgaLinear& l, int n) {
         l.window.stride_y = n;
         l.window.rows = 2;
         l.window.height = n + 1;
       }},
      {"the register 'kernel_rows'", 65535,
       [](FpgaLinear& l, int n) { l.window.kernel_height = l.window.height = n; }},
      {"the rows of a window", 262143,
       [](FpgaLinear& l, int n) {
         l.window.kernel_height = 2;
         l.window.dilation_y = n;
         l.window.height = n + 1;
       }},
      {"the register 'row_taps'", 65535,
       [](FpgaLinear& l, int n) {
         l.window.kernel_width = n;
         l.window.dilation_x = 2;
         l.window.width = 2 * n - 1;
       }},
      {"the register 'tiles'", 65535 / 3,
       [](FpgaLinear& l, int n) {
         l.window.kernel_height = l.window.height = 3;
         l.window.kernel_width = n;
         l.window.dilation_x = 2;
         l.window.width = 2 * n - 1;
       }},
      {"the register 'outputs'", 65535, [](FpgaLinear& l, int n) { l.outputs = n; }},
      {"the register 'outputs'", 65535,
       [](FpgaLinear& l, int n) {
         l.by_channel = true;
         l.outputs = l.window.channels = n;
       }},
      {"the register 'row_taps'", 65535,
       [](FpgaLinear& l, int n) {
         l.by_channel = true;
         l.outputs = l.window.channels = 2;
         l.window.kernel_width = n;
         l.window.dilation_x = 2;
         l.window.width = n;
       }},
      // Two taps at a time, which is all that four rows of the array have for each lane.
      {"the register 'row_taps'", 2 * 65535,
       [](FpgaLinear& l, int n) {
         l.by_channel = true;
         l.outputs = l.window.channels = 1;
         l.window.columns = 3;
         l.window.kernel_width = l.window.width = n;
       }},
      {"the register 'tiles'", 2 * 65535 / 3,
       [](FpgaLinear& l, int n) {
         l.by_channel = true;
         l.outputs = l.window.channels = 1;
         l.window.columns = 3;
         l.window.kernel_height = l.window.height = 3;
         l.window.kernel_width = l.window.width = n;
       }},
      {"the register 'result_pitch'", (1 << 24) - 1,
       [](FpgaLinear& l, int n) {
         l.window.columns = l.window.width = 2;
         l.result_pitch = n;
       }},
      {"the register 'residual_pitch'", (1 << 24) - 1,
       [](FpgaLinear& l, int n) {
         l.window.columns = l.window.width = 2;
         l.residual_pitch = n;
       },
       true},
      {"the windows exceed", POSITIONS,
       [](FpgaLinear& l, int n) {
         // The first window ends before the row begins.
         l.window.left = n;
         l.window.kernel_width = 2;
       }},
      {"the windows exceed", POSITIONS - 1,
       [](FpgaLinear& l, int n) { l.window.stride_x = n; }},
      {"the windows exceed", (1 << 22) - 2, [](FpgaLinear& l, int n) { l.window.top = n; }},
  };
  Simulation core;
  const auto buffers = std::make_unique<FpgaBuffers>();
  unsigned long number = 0, wrong = 0;
  for (const Limit& limit : limits) {
    core.memory = {32, number % 2 != 0 ? 25 : 0, number + 1};
    if (!runs(core, *buffers, limit, number)) ++wrong;
    if (!is_refused(core, limit)) ++wrong;
    ++number;
  }
  const ValueLimit values[] = {
      {"a pixel is repeated 257 times", 256, repeated},
      {"the copy needs more than 64 launches", 32, launched},
      {"there are 5 function tables of floats, the core has room for 4", 4, nullptr},
  };
  for (const ValueLimit& limit : values) {
    core.memory = {32, 25, ++number};
    if (!holds(core, limit)) ++wrong;
  }
  std::printf("%lu limits, %lu wrong\n", number, wrong);
  return wrong == 0 ? 0 : 1;
}
