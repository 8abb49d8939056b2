// How the core goes through a layer: blocks of pixels, lines of the ring, tiles and their order.
#pragma once

#include "plan.h"

namespace ceras {

constexpr int64_t SUM_PIXELS = 64;  // of a block of sums of two tensors, which is written early

// What the line buffer has of a row of the input: `runs` of bytes, `pitch` bytes apart in memory
// and side by side on chip. `step` bytes of memory from one line to the next.
struct Line {
  int64_t runs, run_bytes, pitch, step;

  int64_t bytes() const { return runs * run_bytes; }
};

// What pixels are read and written, whatever is made of them.
struct Geometry {
  int64_t images, height, width, channels, rows, columns;
  int64_t kernel_y, kernel_x, stride_y, stride_x, top, left, dilation_y, dilation_x;
  int64_t outputs;
  int64_t input_pitch, residual_pitch, result_pitch;
  bool values, by_channel, residual;
  int64_t most_pixels = CORE_PIXELS;  // of a block
  int64_t result_size = 1;            // bytes of a result
  int64_t repeats = 1;                // pixels side by side that are the same one of the input
  int64_t row_step = 0;  // where the input has no strides: bytes of a line to the next row
  int64_t pixel_step = 0;  // bytes of a line from pixel to pixel
  Line line{};
};

inline int64_t ceiling(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

void refuse(CorePlan& plan, const std::string& reason);
// Put a number into its register; one that the register does not hold refuses the layer.
void set_field(CorePlan& plan, const registers::Field& field, int64_t value);

// Lines of windows: pixels of all channels, `input_pitch` bytes apart.
void lay_lines(Geometry& g);
// Pixels in a row, each of `bytes` in the line buffer, as rows of an image: of the widths that
// divide them, the one that fills blocks best. False where no row fits.
bool as_image(const CoreSize& size, int64_t pixels, int64_t bytes, Geometry& g);
// The divisor of `bytes` that is the best length of a pixel: whole words, if there are.
int64_t even_length(const CoreSize& size, int64_t bytes);

// How the array goes through a row of a window, by channel: `tiles` tiles of `taps` positions, the
// first ones `tile_step` apart; `read_step` positions from one read to the next, and `reads_apart`
// reads from one pixel to the next.
struct RowTaps {
  int64_t tiles, taps, tile_step, read_step, reads_apart;
};
RowTaps taps_by_channel(int lanes, const Geometry& g);

void set_geometry(const CoreSize& size, const Geometry& g, CorePlan& plan);
// A layer whose results are its values as they are, or what `tables` have for them.
CorePlan plan_values(const CoreSize& size, const Geometry& g, const FpgaTables& tables);

}  // namespace ceras
