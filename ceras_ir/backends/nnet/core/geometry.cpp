// Choose the blocks of pixels and the ring of lines, and set the registers.
#include "geometry.h"

#include <algorithm>

namespace ceras {
namespace {

using namespace registers;

constexpr int64_t MAX_POSITIONS = int64_t{1} << 22;  // in a row
constexpr int64_t MIN_ROW_WORDS = 4;

// The pixels of a row in a block. Repetitions of a pixel of the input are not separated.
int64_t columns_of_block(const Geometry& g) {
  const int64_t own = g.columns / g.repeats;
  const int64_t most = std::max<int64_t>(g.most_pixels / g.repeats, 1);
  return ceiling(own, ceiling(own, most)) * g.repeats;
}

}  // namespace

void refuse(CorePlan& plan, const std::string& reason) {
  if (plan.taken()) plan.refused = reason;
}

void set_field(CorePlan& plan, const Field& field, int64_t value) {
  if (value < field.least || value > field.most)
    refuse(plan, std::string("the register '") + field.name + "' holds " +
                     std::to_string(field.least) + " to " + std::to_string(field.most) +
                     ", got " + std::to_string(value));
  const uint64_t bits = static_cast<uint64_t>(value);
  uint32_t& word = plan.words[field.word];
  if (field.bits < 32)
    word |= (static_cast<uint32_t>(bits) & ((1u << field.bits) - 1)) << field.shift;
  else
    word = static_cast<uint32_t>(bits);
  if (field.bits == 64) plan.words[field.word + 1] = static_cast<uint32_t>(bits >> 32);
}

void lay_lines(Geometry& g) {
  const bool dense = g.input_pitch == g.channels;
  g.line = {dense ? 1 : g.width, dense ? g.width * g.channels : g.channels, g.input_pitch,
            g.width * g.input_pitch};
  g.pixel_step = g.channels;
}

// Of the widths that fill blocks equally, choose the smallest, because the circuit waits for rows.
// A row takes at least the time of MIN_ROW_WORDS words.
bool as_image(const CoreSize& size, int64_t pixels, int64_t bytes, Geometry& g) {
  int64_t width = 0, largest = 0;
  for (int64_t w = 1; w <= g.most_pixels && w <= pixels; ++w) {
    if (pixels % w != 0 || pixels / w > ROWS.most || w * bytes * 2 > size.line_bytes) continue;
    const int64_t rows = std::min(
        {g.most_pixels / w, std::max<int64_t>(size.line_bytes / (w * bytes) / 2, 1), pixels / w});
    const bool is_short = width * bytes < MIN_ROW_WORDS * size.bus_bytes;
    if (w * rows > largest || (w * rows == largest && is_short)) {
      largest = w * rows;
      width = w;
    }
  }
  if (width == 0 && pixels <= ROWS.most && bytes <= size.line_bytes) width = 1;
  if (width == 0) return false;
  g.images = g.kernel_y = g.kernel_x = g.stride_y = g.stride_x = g.dilation_y = g.dilation_x = 1;
  g.top = g.left = 0;
  g.width = g.columns = width;
  g.height = g.rows = pixels / width;
  return true;
}

int64_t even_length(const CoreSize& size, int64_t bytes) {
  int64_t best = 1;
  for (int64_t c = 1; c <= 8 * size.lanes && c <= bytes; ++c)
    if (bytes % c == 0 && (c % size.lanes == 0 || best % size.lanes != 0)) best = c;
  return best;
}

// A tile has a single tap of each pixel, or all positions of several taps. The second form reads
// less data if strides and dilations are small.
RowTaps taps_by_channel(int lanes, const Geometry& g) {
  const int64_t columns = columns_of_block(g), span = (g.kernel_x - 1) * g.dilation_x + 1;
  const int64_t tiles = ceiling(span, std::min(lanes / 2, CORE_CHAIN)), taps = ceiling(span, tiles);
  if (!g.values && tiles * ((columns - 1) * g.stride_x + taps) < g.kernel_x * columns)
    return {tiles, taps, taps, 1, g.stride_x};
  return {g.kernel_x, 1, g.dilation_x, g.stride_x, 1};
}

void set_geometry(const CoreSize& size, const Geometry& g, CorePlan& plan) {
  const auto set = [&plan](const Field& field, int64_t value) { set_field(plan, field, value); };
  const int L = size.lanes;
  const int64_t row_bytes = g.line.bytes();
  const int64_t slots = size.line_bytes / std::max<int64_t>(row_bytes, 1);
  const int64_t extent = (g.kernel_y - 1) * g.dilation_y + 1;
  if (slots < extent) {
    refuse(plan, "the rows of a window are " + std::to_string(extent * row_bytes) +
                     " bytes, the line buffer has " + std::to_string(size.line_bytes));
    return;
  }
  const int64_t furthest =
      std::max((g.columns / g.repeats * g.stride_x + g.kernel_x * g.dilation_x) * g.pixel_step,
               g.left * g.pixel_step) + 4 * L;
  if (furthest > MAX_POSITIONS || (g.rows * g.stride_y + extent + g.top) > MAX_POSITIONS) {
    refuse(plan, "the windows exceed 2^22 positions");
    return;
  }

  // A block fills the memory of sums. The line buffer must also hold the rows of the next block.
  const int64_t block_columns = columns_of_block(g);
  const int64_t column_blocks = ceiling(g.columns, block_columns);
  const int64_t single = g.stride_y == 0 ? g.rows : (slots - extent) / g.stride_y + 1;
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
  // Groups have equal sizes, so that no group waits for a longer previous group.
  const int64_t max_tiles =
      std::max<int64_t>(size.result_bytes / 2 / (pixels * L * g.result_size), 1);
  const int64_t group = ceiling(output_tiles, ceiling(output_tiles, max_tiles));
  const bool whole = group == output_tiles;
  if (g.by_channel) plan.words[MODE.word] |= BY_CHANNEL;
  if (g.result_size != 1) plan.words[MODE.word] |= MAKES_FLOATS;
  if (g.residual && whole && g.residual_pitch == g.outputs) plan.words[MODE.word] |= DENSE_RESIDUAL;
  if (whole && g.result_pitch == g.outputs * g.result_size)
    plan.words[MODE.word] |= DENSE_RESULT;

  const auto ring = [&](int64_t rows) { return (rows % slots + slots) % slots * row_bytes; };
  const int64_t last_row = (g.rows - 1) * g.stride_y - g.top + extent;
  set(INPUT_ROWS, (g.images - 1) * g.height + std::clamp<int64_t>(last_row, 1, g.height));
  set(HEIGHT, g.height);
  set(SLOTS, slots);
  set(RING_BYTES, slots * row_bytes);
  set(ROW_RUNS, g.line.runs);
  set(RUN_BYTES, g.line.run_bytes);
  set(INPUT_PITCH, g.line.pitch);
  set(ROW_BYTES, row_bytes);
  set(ROW_PITCH, g.line.step);
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
  set(REPEATS, g.repeats - 1);
  set(COLUMN_STEP, row.read_step * g.pixel_step);
  set(READS_APART, row.reads_apart);
  set(READS_AFTER, row.taps - 1);
  set(FIRST_POSITION, -g.left * g.channels);
  set(TAP_STEP, row.tile_step * g.channels);
  set(RING_START, ring(-g.top));
  set(RING_ROW_STEP, g.stride_y == 0 ? g.row_step : ring(g.stride_y));
  set(RING_TAP_STEP, ring(g.dilation_y));
  set(RING_BLOCK_STEP,
      g.stride_y == 0 ? block_rows * g.row_step : ring(block_rows * g.stride_y));
  set(RING_IMAGE_STEP, ring(g.height));
  set(BLOCK_POSITION_STEP, block_columns / g.repeats * g.stride_x * g.pixel_step);
  set(BLOCK_Y_STEP, block_rows * g.stride_y);
  set(OUTPUTS, g.outputs);
  set(OUTPUT_TILES, output_tiles);
  set(GROUP_TILES, group);
  set(TILES, tiles);
  set(RESIDUAL_PITCH, g.residual_pitch);
  set(RESULT_PITCH, g.result_pitch);
  set(BLOCKS, g.images * ceiling(g.rows, block_rows) * column_blocks);

  const int64_t out = g.images * g.rows * g.columns;
  plan.input_bytes = (g.images * g.height - 1) * g.line.step + (g.line.runs - 1) * g.line.pitch +
                     g.line.run_bytes;
  plan.residual_bytes = g.residual ? (out - 1) * g.residual_pitch + g.outputs : 0;
  plan.result_bytes = (out - 1) * g.result_pitch + g.outputs * g.result_size;
}

}  // namespace ceras
