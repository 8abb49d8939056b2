// Convert the registers of the engine to the registers of the core, and order the constants.
#include "geometry.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ceras {
namespace {

using namespace registers;

constexpr int FLOAT_BYTES = 4;

struct Numbers {
  uint32_t mode;
  int outside, zero_point, low, high, input_shift;
};

void set_numbers(const Numbers& n, CorePlan& plan) {
  plan.words[MODE.word] |= n.mode;
  set_field(plan, HIGH, n.high);
  set_field(plan, LOW, n.low);
  set_field(plan, ZERO_POINT, n.zero_point);
  set_field(plan, OUTSIDE, n.outside);
  set_field(plan, INPUT_SHIFT, n.input_shift);
}

// The output stage of the channels of a layer. Pointers are null if all channels are equal.
struct Ends {
  const int32_t* constants;
  int32_t constant;  // added to the constants
  const int8_t* shifts;
  int shift;  // if `shifts` is null
  int residual_zero;
  int residual_shift;  // for `shift`; for other shifts the difference is constant
  const uint8_t* tables;
};

// Constant, shift, table number and residual shift of each lane of a tile of outputs.
void put_header(std::vector<uint8_t>& stream, int L, int64_t first, int64_t outputs,
                const Ends& ends) {
  const size_t at = stream.size();
  stream.resize(at + static_cast<size_t>(8 * L));
  for (int64_t lane = 0; lane < L && first + lane < outputs; ++lane) {
    const int64_t o = first + lane;
    const int shift = ends.shifts != nullptr ? ends.shifts[o] : ends.shift;
    const int moved = ends.residual_shift + shift - ends.shift;
    const int32_t zero = ends.residual_zero * (1 << moved);
    const uint32_t sum = static_cast<uint32_t>(ends.constant) - static_cast<uint32_t>(zero) +
                         (ends.constants != nullptr ? static_cast<uint32_t>(ends.constants[o]) : 0);
    uint8_t* to = stream.data() + at + 8 * lane;
    std::memcpy(to, &sum, sizeof sum);
    to[4] = static_cast<uint8_t>(shift);
    to[5] = ends.tables != nullptr ? ends.tables[o] : 0;
    to[6] = static_cast<uint8_t>(moved);
  }
}

// A tile of weights of `bits` bits at the end of the stream, for L outputs. The first rows of all
// chains of the array precede the second rows. The low bits of a byte are the first weights.
class Tile {
 public:
  Tile(std::vector<uint8_t>& stream, const CoreSize& size, int bits)
      : L_(size.lanes), bits_(bits), chain_(std::min(L_, CORE_CHAIN)) {
    const size_t at = stream.size();
    stream.resize(at + static_cast<size_t>(std::max(L_ * L_ * bits / 8, size.bus_bytes)));
    bytes_ = stream.data() + at;
  }

  void put(int64_t row, int64_t lane, int8_t weight) {
    const int64_t ordered = row % chain_ * (L_ / chain_) + row / chain_;
    const int64_t bit = (ordered * L_ + lane) * bits_;
    bytes_[bit / 8] |= static_cast<uint8_t>((weight & ((1 << bits_) - 1)) << bit % 8);
  }

 private:
  int L_, bits_, chain_;
  uint8_t* bytes_;
};

// The tiles of weights of the outputs from `first`. `place(o, p)` is the index of product `p` of
// output `o` in the weights.
template <class Place>
void put_tiles(std::vector<uint8_t>& stream, const CoreSize& size, const Geometry& g, int64_t first,
               int bits, const int8_t* weights, Place place) {
  const int L = size.lanes;
  const int64_t products = g.kernel_y * g.kernel_x * g.channels;
  const int64_t run = g.dilation_x == 1 ? g.kernel_x * g.channels : g.channels;
  for (int64_t i = 0; i < products / run; ++i)
    for (int64_t k = 0; k < run; k += L) {
      Tile tile(stream, size, bits);
      for (int64_t j = 0; j < L && k + j < run; ++j)
        for (int64_t lane = 0; lane < L && first + lane < g.outputs; ++lane)
          tile.put(j, lane, weights[place(first + lane, i * run + k + j)]);
    }
}

// The same for depthwise layers: each lane has separate rows of weights.
void put_taps(std::vector<uint8_t>& stream, const CoreSize& size, const Geometry& g, int64_t first,
              int bits, const int8_t* weights) {
  const int L = size.lanes;
  const RowTaps row = taps_by_channel(L, g);
  for (int64_t i = 0; i < g.kernel_y * row.tiles; ++i) {
    Tile tile(stream, size, bits);
    for (int64_t t = 0; t < row.taps; ++t) {
      const int64_t position = i % row.tiles * row.tile_step + t, j = position / g.dilation_x;
      if (position % g.dilation_x != 0 || j >= g.kernel_x) continue;
      const int8_t* tap = weights + (i / row.tiles * g.kernel_x + j) * g.outputs + first;
      for (int64_t lane = 0; lane < L && first + lane < g.outputs; ++lane)
        tile.put(lane % 2 * (L / 2) + t, lane, tap[lane]);
    }
  }
}

// The headers of a layer without products. The function tables precede them.
void put_headers(const CoreSize& size, int64_t outputs, const Ends& ends, CorePlan& plan) {
  for (int64_t o = 0; o < outputs; o += size.lanes)
    put_header(plan.stream, size.lanes, o, outputs, ends);
  set_field(plan, STREAM_BYTES, static_cast<int64_t>(plan.stream.size() - plan.table_bytes));
}

// The tables of the channels of a linear layer or of a lookup.
void put_tables(const CoreSize& size, const FpgaTables& tables, int64_t channels, CorePlan& plan) {
  if (tables.entries == nullptr) return;
  const int unit = tables.entry_bytes, room = size.tables / unit;
  const int needed =
      tables.rows == nullptr ? 1 : 1 + *std::max_element(tables.rows, tables.rows + channels);
  if (unit != 1 && unit != FLOAT_BYTES)
    refuse(plan, "the entries of the table have " + std::to_string(unit) + " bytes");
  if (needed > room)
    refuse(plan, "there are " + std::to_string(needed) + " function tables" +
                     (unit != 1 ? " of floats" : "") + ", the core has room for " +
                     std::to_string(room));
  if (!plan.taken()) return;
  // The circuit uses the unsigned byte as the index, the engine the signed number plus 128.
  for (int i = 0; i < 256 * needed; ++i) {
    const uint8_t* entry = tables.entries + (i ^ 128) * unit;
    plan.stream.insert(plan.stream.end(), entry, entry + unit);
  }
  plan.table_bytes = plan.stream.size();
  set_field(plan, TABLE_BYTES, static_cast<int64_t>(plan.table_bytes));
}

// Results of `bytes` bytes. A half of the result buffer must hold a tile of outputs.
void set_result_size(const CoreSize& size, int64_t bytes, Geometry& g) {
  g.result_size = bytes;
  g.most_pixels = std::min(g.most_pixels, size.result_bytes / 2 / (size.lanes * bytes));
}

int net_shift(const FpgaRescale& r) { return r.right - r.left; }

Geometry of_window(const FpgaWindow& w) {
  Geometry g{};
  g.height = w.height, g.width = w.width, g.channels = w.channels;
  g.rows = w.rows, g.columns = w.columns;
  g.kernel_y = w.kernel_height, g.kernel_x = w.kernel_width;
  g.stride_y = w.stride_y, g.stride_x = w.stride_x;
  g.top = w.top, g.left = w.left;
  g.dilation_y = w.dilation_y, g.dilation_x = w.dilation_x;
  return g;
}

Geometry of_linear(const CoreSize& size, const FpgaLinear& layer, const FpgaTables& tables,
                   bool residual) {
  Geometry g = of_window(layer.window);
  g.images = layer.images;
  g.by_channel = layer.by_channel;
  g.residual = residual;
  g.outputs = layer.outputs;
  g.input_pitch = layer.input_pitch;
  g.residual_pitch = layer.residual_pitch;
  g.result_pitch = layer.result_pitch;
  if (layer.product) g.kernel_y = g.kernel_x = g.dilation_x = 1;
  if (tables.entries != nullptr) set_result_size(size, tables.entry_bytes, g);
  return g;
}

}  // namespace

CorePlan plan_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                     const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                     bool residual) {
  CorePlan plan;
  put_tables(size, tables, layer.outputs, plan);
  Geometry g = of_linear(size, layer, tables, residual);
  if (layer.product && !as_image(size, layer.pixels, g.channels, g))
    refuse(plan, "the rows do not fit the line buffer");
  lay_lines(g);
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  const FpgaRescale& r = layer.rescale;
  const uint32_t mode = (residual ? HAS_RESIDUAL : 0) | (r.to_even ? TO_EVEN : 0) |
                        (layer.weight_bits == 4   ? FOUR_BITS
                         : layer.weight_bits == 2 ? TWO_BITS
                                                  : 0);
  set_numbers({mode, layer.input_zero, r.zero_point, r.low, r.high, 0}, plan);
  if (weights == nullptr) return plan;
  refill_linear(size, layer, weights, constants, shifts, tables, residual, plan);
  set_field(plan, STREAM_BYTES, static_cast<int64_t>(plan.stream.size() - plan.table_bytes));
  return plan;
}

void refill_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                   const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                   bool residual, CorePlan& plan) {
  const int L = size.lanes;
  const Geometry g = of_linear(size, layer, tables, residual);
  const int64_t products = g.kernel_y * g.kernel_x * g.channels;
  const int64_t groups = ceiling(products, GROUP);
  const Ends ends{constants,
                  0,
                  shifts,
                  net_shift(layer.rescale),
                  residual ? layer.residual_zero : 0,
                  residual ? layer.residual_shift : 0,
                  tables.rows};
  std::vector<uint8_t>& stream = plan.stream;
  stream.resize(plan.table_bytes);
  for (int64_t first = 0; first < g.outputs; first += L) {
    put_header(stream, L, first, g.outputs, ends);
    if (g.by_channel)
      put_taps(stream, size, g, first, layer.weight_bits, weights);
    else if (layer.computed)
      put_tiles(stream, size, g, first, layer.weight_bits, weights,
                [products](int64_t o, int64_t p) { return o * products + p; });
    else
      put_tiles(stream, size, g, first, layer.weight_bits, weights,
                [groups](int64_t o, int64_t p) {
                  return ((o / LANES * groups + p / GROUP) * LANES + o % LANES) * GROUP + p % GROUP;
                });
  }
}

CorePlan plan_pool(const CoreSize& size, const FpgaPool& layer) {
  CorePlan plan;
  Geometry g = of_window(layer.window);
  g.images = layer.images;
  g.outputs = g.channels;
  g.values = g.by_channel = true;
  g.input_pitch = layer.input_pitch;
  g.result_pitch = layer.result_pitch;
  int shift = 0, constant = 0;
  Numbers n{TAKES_VALUES | TAKES_GREATEST, -128, 0, -128, 127, 0};
  if (layer.average) {
    // Lanes have no multiplier for averages, so the divisor must be a power of two.
    if (layer.multiplier <= 0 || (layer.multiplier & (layer.multiplier - 1)) != 0) {
      refuse(plan, "the divisor is not a power of two");
      return plan;
    }
    shift = layer.shift;
    for (int m = layer.multiplier; m > 1; m /= 2) --shift;
    if (shift < -FPGA_MAX_LEFT_SHIFT) refuse(plan, "the shift to the left exceeds 8 bits");
    constant = -layer.input_zero * layer.window.kernel_height * layer.window.kernel_width;
    n = {TAKES_VALUES | (layer.to_even ? TO_EVEN : 0u), layer.input_zero, layer.zero_point,
         layer.low, layer.high, 0};
  }
  lay_lines(g);
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  set_numbers(n, plan);
  put_headers(size, g.outputs, {nullptr, constant, nullptr, shift, 0, 0, nullptr}, plan);
  return plan;
}

CorePlan plan_add(const CoreSize& size, const FpgaAdd& layer) {
  CorePlan plan;
  Geometry g{};
  int64_t pixels = layer.rows;
  g.channels = layer.length;
  if (layer.rows == 1) {
    // Without gaps, any divisor is possible as the length of a pixel.
    g.channels = even_length(size, layer.length);
    pixels = layer.length / g.channels;
  }
  g.outputs = g.channels;
  g.values = g.by_channel = g.residual = true;
  g.most_pixels = SUM_PIXELS;
  g.input_pitch = layer.rows == 1 ? g.channels : layer.lhs_pitch;
  g.residual_pitch = layer.rows == 1 ? g.channels : layer.rhs_pitch;
  g.result_pitch = layer.rows == 1 ? g.channels : layer.result_pitch;
  if (!as_image(size, pixels, g.channels, g)) refuse(plan, "the rows do not fit the line buffer");
  lay_lines(g);
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  const FpgaRescale& r = layer.rescale;
  set_numbers({TAKES_VALUES | HAS_RESIDUAL | (r.to_even ? TO_EVEN : 0u), 0, r.zero_point, r.low,
               r.high, layer.lhs_shift},
              plan);
  const int32_t constant = -(layer.lhs_zero * (1 << layer.lhs_shift));
  put_headers(size, g.outputs,
              {nullptr, constant, nullptr, net_shift(r), layer.rhs_zero, layer.rhs_shift, nullptr},
              plan);
  return plan;
}

CorePlan plan_values(const CoreSize& size, const Geometry& g, const FpgaTables& tables) {
  CorePlan plan;
  put_tables(size, tables, g.outputs, plan);
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  set_numbers({TAKES_VALUES, 0, 0, -128, 127, 0}, plan);
  put_headers(size, g.outputs, {nullptr, 0, nullptr, 0, 0, 0, tables.rows}, plan);
  return plan;
}

CorePlan plan_lookup(const CoreSize& size, const FpgaLookup& layer, const FpgaTables& tables) {
  Geometry g{};
  const int64_t unit = tables.entry_bytes;
  int64_t pixels = layer.rows;
  g.channels = layer.channels;
  g.input_pitch = layer.input_pitch;
  g.result_pitch = layer.result_pitch;
  const bool dense = g.input_pitch == g.channels && g.result_pitch == g.channels * unit;
  if (tables.rows == nullptr && dense) {
    // If all channels have equal tables, any length of a pixel is possible.
    g.channels = g.input_pitch = even_length(size, pixels * g.channels);
    g.result_pitch = g.channels * unit;
    pixels = layer.rows * layer.channels / g.channels;
  }
  g.outputs = g.channels;
  g.values = g.by_channel = true;
  set_result_size(size, unit, g);
  CorePlan plan;
  if (!as_image(size, pixels, g.channels, g)) {
    refuse(plan, "the rows do not fit the line buffer");
    return plan;
  }
  lay_lines(g);
  return plan_values(size, g, tables);
}

void set_addresses(CorePlan& plan, uint64_t input, uint64_t stream, uint64_t residual,
                   uint64_t result) {
  const auto set = [&plan](const Field& field, uint64_t address) {
    set_field(plan, field, static_cast<int64_t>(address));
  };
  set(INPUT_ADDRESS, input);
  set(STREAM_ADDRESS, stream);
  set(RESIDUAL_ADDRESS, residual);
  set(RESULT_ADDRESS, result);
}

}  // namespace ceras
