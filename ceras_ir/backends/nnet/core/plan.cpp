// From the registers that the engine has for a layer to those of the core: how the
// result is cut into blocks of pixels, where the ring of rows turns, and the order of constants.
#include "plan.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace ceras {
namespace {

using namespace registers;

constexpr int64_t MOST = int64_t{1} << 22;  // of positions in a row
constexpr int64_t SHORT = 4;
constexpr int64_t SUM_PIXELS = 64;  // of a block of sums of two tensors, which is written early

int64_t ceiling(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

// What pixels are read and written, whatever is made of them.
struct Geometry {
  int64_t images, height, width, channels, rows, columns;
  int64_t kernel_y, kernel_x, stride_y, stride_x, top, left, dilation_y, dilation_x;
  int64_t outputs;
  int64_t input_pitch, residual_pitch, result_pitch;
  bool values, by_channel, residual;
  int64_t most_pixels = CORE_PIXELS;  // of a block
};

// How the array goes through a row of a window, by channel: `tiles` tiles of `taps` positions, the
// first ones `tile_step` apart; `read_step` positions from one read to the next, and `reads_apart`
// reads from one pixel to the next.
struct RowTaps {
  int64_t tiles, taps, tile_step, read_step, reads_apart;
};

struct Numbers {
  uint32_t mode;
  int outside, zero_point, low, high, residual_shift, input_shift;
};

// Pixels in a row, as rows of an image: of the widths that divide them, the one that fills blocks
// best. Of those the least, for rows are what the circuit waits for; but a row takes the time of
// SHORT words at least.
bool as_image(const CoreSize& size, int64_t pixels, Geometry& g) {
  int64_t width = 0, most = 0;
  for (int64_t w = 1; w <= g.most_pixels && w <= pixels; ++w) {
    if (pixels % w != 0 || pixels / w > ROWS.most || w * g.channels * 2 > size.line_bytes) continue;
    const int64_t rows =
        std::min({g.most_pixels / w, std::max<int64_t>(size.line_bytes / (w * g.channels) / 2, 1),
                  pixels / w});
    const bool is_short = width * g.channels < SHORT * size.bus_bytes;
    if (w * rows > most || (w * rows == most && is_short)) {
      most = w * rows;
      width = w;
    }
  }
  if (width == 0 && pixels <= ROWS.most && g.channels <= size.line_bytes) width = 1;
  if (width == 0) return false;
  g.images = g.kernel_y = g.kernel_x = g.stride_y = g.stride_x = g.dilation_y = g.dilation_x = 1;
  g.top = g.left = 0;
  g.width = g.columns = width;
  g.height = g.rows = pixels / width;
  return true;
}

int64_t columns_of_block(const Geometry& g) {
  return ceiling(g.columns, ceiling(g.columns, g.most_pixels));
}

// One tap of each pixel after the other, or all positions under several taps, which is less to read
// where strides and dilations are small.
RowTaps taps_by_channel(int lanes, const Geometry& g) {
  const int64_t columns = columns_of_block(g), span = (g.kernel_x - 1) * g.dilation_x + 1;
  const int64_t tiles = ceiling(span, std::min(lanes / 2, CORE_CHAIN)), taps = ceiling(span, tiles);
  if (!g.values && tiles * ((columns - 1) * g.stride_x + taps) < g.kernel_x * columns)
    return {tiles, taps, taps, 1, g.stride_x};
  return {g.kernel_x, 1, g.dilation_x, g.stride_x, 1};
}

void refuse(CorePlan& plan, const std::string& reason) {
  if (plan.taken()) plan.refused = reason;
}

// Put a number into its register; one that the register does not hold refuses the layer.
void set_field(CorePlan& plan, const Field& field, int64_t value) {
  if (value < field.least || value > field.most)
    refuse(plan, std::string("its ") + field.name + " is " + std::to_string(value) +
                     ", the register holds " + std::to_string(field.least) + " to " +
                     std::to_string(field.most));
  const uint64_t bits = static_cast<uint64_t>(value);
  uint32_t& word = plan.words[field.word];
  if (field.bits < 32)
    word |= (static_cast<uint32_t>(bits) & ((1u << field.bits) - 1)) << field.shift;
  else
    word = static_cast<uint32_t>(bits);
  if (field.bits == 64) plan.words[field.word + 1] = static_cast<uint32_t>(bits >> 32);
}

void set_geometry(const CoreSize& size, const Geometry& g, CorePlan& plan) {
  const auto set = [&plan](const Field& field, int64_t value) { set_field(plan, field, value); };
  const int L = size.lanes;
  const int64_t row_bytes = g.width * g.channels;
  const int64_t slots = size.line_bytes / std::max<int64_t>(row_bytes, 1);
  const int64_t extent = (g.kernel_y - 1) * g.dilation_y + 1;
  if (slots < extent) {
    refuse(plan, "the rows under its window are " + std::to_string(extent * row_bytes) +
                     " bytes, the line buffer has " + std::to_string(size.line_bytes));
    return;
  }
  const int64_t furthest =
      std::max((g.columns * g.stride_x + g.kernel_x * g.dilation_x) * g.channels,
               g.left * g.channels) + 4 * L;
  if (furthest > MOST || (g.rows * g.stride_y + extent + g.top) > MOST) {
    refuse(plan, "its windows reach further than 2^22 positions");
    return;
  }

  // Blocks as large as the sums, while the next block's rows have room beside.
  const int64_t column_blocks = ceiling(g.columns, g.most_pixels);
  const int64_t block_columns = columns_of_block(g);
  const int64_t single = (slots - extent) / g.stride_y + 1;
  int64_t block_rows = column_blocks > 1 ? 1 : g.most_pixels / g.columns;
  const int64_t twice = (single + 1) / 2;
  block_rows = std::min({block_rows, twice * g.columns >= 64 ? twice : single, g.rows});
  block_rows = ceiling(g.rows, ceiling(g.rows, block_rows));

  const bool dense_taps = g.dilation_x == 1;
  const int64_t run = dense_taps ? g.kernel_x * g.channels : g.channels;
  const RowTaps row = g.by_channel ? taps_by_channel(L, g)
                      : dense_taps ? RowTaps{1, 1, 1, g.stride_x, 1}
                                   : RowTaps{g.kernel_x, 1, g.dilation_x, g.stride_x, 1};
  const int64_t run_tiles = g.by_channel ? 1 : ceiling(run, L);
  const int64_t tiles = g.values ? 0 : g.kernel_y * row.tiles * run_tiles;
  const int64_t output_tiles = ceiling(g.outputs, L), pixels = block_rows * block_columns;
  // Groups alike, so that none waits for one before it that takes longer to write.
  const int64_t most = std::max<int64_t>(size.result_bytes / 2 / (pixels * L), 1);
  const int64_t group = ceiling(output_tiles, ceiling(output_tiles, most));
  const bool whole = group == output_tiles;
  if (g.by_channel) plan.words[MODE.word] |= BY_CHANNEL;
  if (g.residual && whole && g.residual_pitch == g.outputs) plan.words[MODE.word] |= DENSE_RESIDUAL;
  if (whole && g.result_pitch == g.outputs) plan.words[MODE.word] |= DENSE_RESULT;

  const bool dense = g.input_pitch == g.channels;
  const auto ring = [&](int64_t rows) { return (rows % slots + slots) % slots * row_bytes; };
  const int64_t last_row = (g.rows - 1) * g.stride_y - g.top + extent;
  set(INPUT_ROWS, (g.images - 1) * g.height + std::clamp<int64_t>(last_row, 1, g.height));
  set(HEIGHT, g.height);
  set(SLOTS, slots);
  set(RING_BYTES, slots * row_bytes);
  set(ROW_RUNS, dense ? 1 : g.width);
  set(RUN_BYTES, dense ? row_bytes : g.channels);
  set(INPUT_PITCH, g.input_pitch);
  set(ROW_BYTES, row_bytes);
  set(ROW_PITCH, g.width * g.input_pitch);
  set(ROWS, g.rows);
  set(COLUMNS, g.columns);
  set(BLOCK_ROWS, block_rows);
  set(BLOCK_COLUMNS, block_columns);
  set(IMAGES, g.images);
  set(STRIDE_Y, g.stride_y);
  set(FIRST_Y, -g.top);
  set(EXTENT, extent);
  set(KERNEL_ROWS, g.kernel_y);
  set(DILATION_Y, g.dilation_y);
  set(ROW_TAPS, row.tiles);
  set(RUN_TILES, run_tiles);
  set(COLUMN_STEP, row.read_step * g.channels);
  set(READS_APART, row.reads_apart);
  set(READS_AFTER, row.taps - 1);
  set(FIRST_POSITION, -g.left * g.channels);
  set(TAP_STEP, row.tile_step * g.channels);
  set(RING_START, ring(-g.top));
  set(RING_ROW_STEP, ring(g.stride_y));
  set(RING_TAP_STEP, ring(g.dilation_y));
  set(RING_BLOCK_STEP, ring(block_rows * g.stride_y));
  set(RING_IMAGE_STEP, ring(g.height));
  set(BLOCK_POSITION_STEP, block_columns * g.stride_x * g.channels);
  set(BLOCK_Y_STEP, block_rows * g.stride_y);
  set(OUTPUTS, g.outputs);
  set(OUTPUT_TILES, output_tiles);
  set(GROUP_TILES, group);
  set(TILES, tiles);
  set(RESIDUAL_PITCH, g.residual_pitch);
  set(RESULT_PITCH, g.result_pitch);
  set(BLOCKS, g.images * ceiling(g.rows, block_rows) * column_blocks);

  const int64_t in = g.images * g.height * g.width, out = g.images * g.rows * g.columns;
  plan.input_bytes = (in - 1) * g.input_pitch + g.channels;
  plan.residual_bytes = g.residual ? (out - 1) * g.residual_pitch + g.outputs : 0;
  plan.result_bytes = (out - 1) * g.result_pitch + g.outputs;
}

void set_numbers(const Numbers& n, CorePlan& plan) {
  plan.words[MODE.word] |= n.mode;
  set_field(plan, HIGH, n.high);
  set_field(plan, LOW, n.low);
  set_field(plan, ZERO_POINT, n.zero_point);
  set_field(plan, OUTSIDE, n.outside);
  set_field(plan, RESIDUAL_SHIFT, n.residual_shift);
  set_field(plan, INPUT_SHIFT, n.input_shift);
}

// Constant, shift and number of its table of each lane of a tile of outputs.
void put_header(std::vector<uint8_t>& stream, int L, int64_t first, int64_t outputs,
                const int32_t* constants, int32_t constant, const int8_t* shifts, int shift,
                const uint8_t* tables) {
  const size_t at = stream.size();
  stream.resize(at + static_cast<size_t>(8 * L));
  for (int64_t lane = 0; lane < L && first + lane < outputs; ++lane) {
    const uint32_t sum =
        static_cast<uint32_t>(constant) +
        (constants != nullptr ? static_cast<uint32_t>(constants[first + lane]) : 0);
    uint8_t* to = stream.data() + at + 8 * lane;
    std::memcpy(to, &sum, sizeof sum);
    to[4] = static_cast<uint8_t>(shifts != nullptr ? shifts[first + lane] : shift);
    to[5] = tables != nullptr ? tables[first + lane] : 0;
  }
}

// Tiles of weights of the outputs from `first`, row by row.
void put_tiles(std::vector<uint8_t>& stream, int L, const Geometry& g, int64_t first,
               const int8_t* weights) {
  const int64_t products = g.kernel_y * g.kernel_x * g.channels;
  const int64_t groups = ceiling(products, GROUP);
  const int64_t run = g.dilation_x == 1 ? g.kernel_x * g.channels : g.channels;
  for (int64_t i = 0; i < products / run; ++i)
    for (int64_t k = 0; k < run; k += L) {
      const size_t at = stream.size();
      stream.resize(at + static_cast<size_t>(L * L));
      for (int64_t j = 0; j < L && k + j < run; ++j)
        for (int64_t lane = 0; lane < L && first + lane < g.outputs; ++lane) {
          const int64_t o = first + lane, p = i * run + k + j;
          stream[at + static_cast<size_t>(j * L + lane)] = static_cast<uint8_t>(
              weights[((o / LANES * groups + p / GROUP) * LANES + o % LANES) * GROUP + p % GROUP]);
        }
    }
}

// The same by channel: of each lane the weights of the rows that it has for itself.
void put_taps(std::vector<uint8_t>& stream, int L, const Geometry& g, int64_t first,
              const int8_t* weights) {
  const RowTaps row = taps_by_channel(L, g);
  for (int64_t i = 0; i < g.kernel_y * row.tiles; ++i) {
    const size_t at = stream.size();
    stream.resize(at + static_cast<size_t>(L * L));
    for (int64_t t = 0; t < row.taps; ++t) {
      const int64_t position = i % row.tiles * row.tile_step + t, j = position / g.dilation_x;
      if (position % g.dilation_x != 0 || j >= g.kernel_x) continue;
      const int8_t* tap = weights + (i / row.tiles * g.kernel_x + j) * g.outputs + first;
      for (int64_t lane = 0; lane < L && first + lane < g.outputs; ++lane)
        stream[at + static_cast<size_t>((lane % 2 * (L / 2) + t) * L + lane)] =
            static_cast<uint8_t>(tap[lane]);
    }
  }
}

void put_headers(const CoreSize& size, int64_t outputs, int32_t constant, int shift,
                 CorePlan& plan) {
  for (int64_t o = 0; o < outputs; o += size.lanes)
    put_header(plan.stream, size.lanes, o, outputs, nullptr, constant, nullptr, shift, nullptr);
  set_field(plan, STREAM_BYTES, static_cast<int64_t>(plan.stream.size()));
}

// How many tables the channels of a layer have.
int tables_of(const FpgaLinear& layer, const FpgaTables& tables) {
  if (tables.entries == nullptr) return 0;
  if (tables.rows == nullptr) return 1;
  return 1 + *std::max_element(tables.rows, tables.rows + layer.outputs);
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

}  // namespace

CorePlan plan_linear(const CoreSize& size, const FpgaLinear& layer, const int8_t* weights,
                     const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                     bool residual) {
  CorePlan plan;
  const int L = size.lanes;
  const bool looks_up = tables.entries != nullptr;
  if (looks_up && tables.entry_bytes != 1) refuse(plan, "its table has floats");
  const int needed = tables_of(layer, tables);
  if (needed > size.tables)
    refuse(plan, "it has " + std::to_string(needed) + " function tables, the core has room for " +
                     std::to_string(size.tables));
  Geometry g = of_window(layer.window);
  g.images = layer.images;
  g.by_channel = layer.by_channel;
  g.residual = residual;
  g.outputs = layer.outputs;
  g.input_pitch = layer.input_pitch;
  g.residual_pitch = layer.residual_pitch;
  g.result_pitch = layer.result_pitch;
  if (layer.product && !as_image(size, layer.pixels, g))
    refuse(plan, "its rows do not fit the line buffer");
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  const FpgaRescale& r = layer.rescale;
  const uint32_t mode = (residual ? HAS_RESIDUAL : 0) | (r.to_even ? TO_EVEN : 0);
  set_numbers({mode, layer.input_zero, r.zero_point, r.low, r.high, layer.residual_shift, 0}, plan);

  const int32_t constant = residual ? -(layer.residual_zero * (1 << layer.residual_shift)) : 0;
  std::vector<uint8_t>& stream = plan.stream;
  // The circuit looks up the byte, the engine the number from -128 on.
  for (int i = 0; i < 256 * needed; ++i) stream.push_back(tables.entries[i ^ 128]);
  const int64_t table_bytes = static_cast<int64_t>(stream.size());
  set_field(plan, TABLE_BYTES, table_bytes);
  for (int64_t first = 0; first < g.outputs; first += L) {
    put_header(stream, L, first, g.outputs, constants, constant, shifts, net_shift(r),
               tables.rows);
    (g.by_channel ? put_taps : put_tiles)(stream, L, g, first, weights);
  }
  set_field(plan, STREAM_BYTES, static_cast<int64_t>(stream.size()) - table_bytes);
  return plan;
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
  Numbers n{TAKES_VALUES | TAKES_GREATEST, -128, 0, -128, 127, 0, 0};
  if (layer.average) {
    // A multiplier would be one more for each lane; means by a power of two need none.
    if (layer.multiplier <= 0 || (layer.multiplier & (layer.multiplier - 1)) != 0) {
      refuse(plan, "it divides by no power of two");
      return plan;
    }
    shift = layer.shift;
    for (int m = layer.multiplier; m > 1; m /= 2) --shift;
    if (shift < -FPGA_MAX_LEFT_SHIFT) refuse(plan, "it shifts to the left by more than 8 bits");
    constant = -layer.input_zero * layer.window.kernel_height * layer.window.kernel_width;
    n = {TAKES_VALUES | (layer.to_even ? TO_EVEN : 0u), layer.input_zero, layer.zero_point,
         layer.low, layer.high, 0, 0};
  }
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  set_numbers(n, plan);
  put_headers(size, g.outputs, constant, shift, plan);
  return plan;
}

CorePlan plan_add(const CoreSize& size, const FpgaAdd& layer) {
  CorePlan plan;
  const int L = size.lanes;
  Geometry g{};
  int64_t pixels = layer.rows;
  g.channels = layer.length;
  if (layer.rows == 1) {
    // Without gaps any length of a pixel will do that divides them all: whole words, if there are.
    int64_t best = 1;
    for (int64_t c = 1; c <= 8 * L && c <= layer.length; ++c)
      if (layer.length % c == 0 && (c % L == 0 || best % L != 0)) best = c;
    g.channels = best;
    pixels = layer.length / best;
  }
  g.outputs = g.channels;
  g.values = g.by_channel = g.residual = true;
  g.most_pixels = SUM_PIXELS;
  g.input_pitch = layer.rows == 1 ? g.channels : layer.lhs_pitch;
  g.residual_pitch = layer.rows == 1 ? g.channels : layer.rhs_pitch;
  g.result_pitch = layer.rows == 1 ? g.channels : layer.result_pitch;
  if (!as_image(size, pixels, g)) refuse(plan, "its rows do not fit the line buffer");
  if (plan.taken()) set_geometry(size, g, plan);
  if (!plan.taken()) return plan;
  const FpgaRescale& r = layer.rescale;
  set_numbers({TAKES_VALUES | HAS_RESIDUAL | (r.to_even ? TO_EVEN : 0u), 0, r.zero_point, r.low,
               r.high, layer.rhs_shift, layer.lhs_shift},
              plan);
  const int32_t zero =
      layer.lhs_zero * (1 << layer.lhs_shift) + layer.rhs_zero * (1 << layer.rhs_shift);
  put_headers(size, g.outputs, -zero, net_shift(r), plan);
  return plan;
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
