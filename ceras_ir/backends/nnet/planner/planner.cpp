// The plan of a layer for the compiler, which loads this file and core/ as a shared library.
//
// A request is a list of integers, in the order in which `array_plan.py` writes them. The answer is
// the number of launches and the registers of a launch, or the reason why the core refuses the layer.
#include <algorithm>
#include <cstring>

#include "plan.h"

namespace ceras {
namespace {

enum class Circuit { Linear, Pool, Add, Lookup, Move };

// Reads the integers of a request in order.
class Request {
 public:
  explicit Request(const int64_t* next) : next_(next) {}
  int64_t wide() { return *next_++; }
  int number() { return static_cast<int>(wide()); }
  bool flag() { return wide() != 0; }

 private:
  const int64_t* next_;
};

// Tables of zeros: a plan depends only on the number of tables and the size of an entry.
class Tables {
 public:
  Tables(int count, int entry_bytes, int64_t channels)
      : entries_(static_cast<size_t>(256 * count * entry_bytes)),
        rows_(count > 1 ? static_cast<size_t>(channels) : 0),
        entry_bytes_(entry_bytes) {
    for (size_t i = 0; i < rows_.size(); ++i)
      rows_[i] = static_cast<uint8_t>(std::min<size_t>(i, static_cast<size_t>(count - 1)));
  }
  FpgaTables view() const {
    return {entries_.empty() ? nullptr : entries_.data(), rows_.empty() ? nullptr : rows_.data(),
            entry_bytes_};
  }

 private:
  std::vector<uint8_t> entries_, rows_;
  int entry_bytes_;
};

MovePlan planned_move(const CoreSize& size, Request request) {
  FpgaMove move{};
  move.unit = request.number();
  for (int& count : move.dims) count = request.number();
  for (int64_t& step : move.from) step = request.wide();
  for (int64_t& step : move.to) step = request.wide();
  return plan_move(size, move);
}

CorePlan planned(const CoreSize& size, Circuit circuit, Request r) {
  const int images = r.number();
  FpgaWindow w{};
  for (int* field : {&w.height, &w.width, &w.channels, &w.rows, &w.columns}) *field = r.number();
  const int outputs = r.number();
  const int64_t input_pitch = r.wide(), result_pitch = r.wide(), residual_pitch = r.wide();
  for (int* field : {&w.kernel_height, &w.stride_y, &w.top, &w.dilation_y, &w.kernel_width,
                     &w.stride_x, &w.left, &w.dilation_x})
    *field = r.number();
  const bool by_channel = r.flag();
  const int64_t pixels = r.wide();
  const int count = r.number(), entry_bytes = r.number(), multiplier = r.number();
  const int shift = r.number(), weight_bits = r.number();
  const Tables tables(count, entry_bytes, outputs);
  switch (circuit) {
    case Circuit::Linear: {
      FpgaLinear layer{};
      layer.window = w;
      layer.images = images;
      layer.product = pixels != 0;
      layer.pixels = pixels;
      layer.by_channel = by_channel;
      layer.weight_bits = weight_bits;
      layer.outputs = outputs;
      layer.input_pitch = input_pitch;
      layer.residual_pitch = residual_pitch;
      layer.result_pitch = result_pitch;
      return plan_linear(size, layer, nullptr, nullptr, nullptr, tables.view(),
                         residual_pitch != 0);
    }
    case Circuit::Pool: {
      FpgaPool layer{};
      layer.window = w;
      layer.images = images;
      layer.average = multiplier != 0;
      layer.multiplier = multiplier;
      layer.shift = shift;
      layer.input_pitch = input_pitch;
      layer.result_pitch = result_pitch;
      return plan_pool(size, layer);
    }
    case Circuit::Add: {
      FpgaAdd layer{};
      layer.rows = pixels;
      layer.length = w.channels;
      layer.lhs_pitch = input_pitch;
      layer.rhs_pitch = residual_pitch;
      layer.result_pitch = result_pitch;
      return plan_add(size, layer);
    }
    default:
      return plan_lookup(size, {pixels, w.channels, input_pitch, result_pitch}, tables.view());
  }
}

}  // namespace
}  // namespace ceras

// Return the number of launches, and write the registers to `words`. If the core refuses the layer,
// return 0 and write the reason to `reason`, which has `room` bytes.
extern "C" int64_t ceras_nnet_plan(const int64_t* core, const int64_t* request, uint32_t* words,
                                   char* reason, int64_t room) {
  using namespace ceras;
  const CoreSize size{static_cast<int>(core[0]), static_cast<int>(core[1]), core[2], core[3],
                      static_cast<int>(core[4])};
  const Circuit circuit = static_cast<Circuit>(request[0]);
  const Request rest(request + 1);
  const MovePlan plan = circuit == Circuit::Move ? planned_move(size, rest)
                                                 : MovePlan{planned(size, circuit, rest), {{0, 0}}};
  std::copy_n(plan.plan.words.begin(), registers::WORDS, words);
  std::strncpy(reason, plan.plan.refused.c_str(), static_cast<size_t>(room - 1));
  return plan.plan.taken() ? static_cast<int64_t>(plan.places.size()) : 0;
}
