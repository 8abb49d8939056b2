// The order in which the core computes a layer: blocks of pixels, lines of the ring, and tiles.
#pragma once

#include "plan.h"

namespace ceras {

constexpr int64_t SUM_PIXELS = 64;  // of a block of an addition; small blocks are written early

// A row of the input in the line buffer: `runs` runs of bytes, which are `pitch` bytes apart in
// memory and contiguous on chip. Lines are `step` bytes apart in memory.
struct Line {
  int64_t runs, run_bytes, pitch, step;

  int64_t bytes() const { return runs * run_bytes; }
};

// The pixels that a layer reads and writes, independently of the arithmetic.
struct Geometry {
  int64_t images, height, width, channels, rows, columns;
  int64_t kernel_y, kernel_x, stride_y, stride_x, top, left, dilation_y, dilation_x;
  int64_t outputs;
  int64_t input_pitch, residual_pitch, result_pitch;
  bool values, by_channel, residual;
  int64_t most_pixels = CORE_PIXELS;  // of a block
  int64_t result_size = 1;            // bytes of a result
  int64_t repeats = 1;                // adjacent pixels that repeat a pixel of the input
  int64_t row_step = 0;  // without vertical stride: bytes in a line from row to row
  int64_t pixel_step = 0;  // bytes in a line from pixel to pixel
  Line line{};
};

inline int64_t ceiling(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }

void refuse(CorePlan& plan, const std::string& reason);
// Set a register. Refuse the layer if the register cannot hold the value.
void set_field(CorePlan& plan, const registers::Field& field, int64_t value);

// Define the lines of windows: pixels with all channels, `input_pitch` bytes apart.
void lay_lines(Geometry& g);
// Arrange a list of pixels, each with `bytes` in the line buffer, as rows of an image. Choose the
// width that fills blocks best. Return false if no row fits.
bool as_image(const CoreSize& size, int64_t pixels, int64_t bytes, Geometry& g);
// The best divisor of `bytes` as the length of a pixel: a multiple of the lanes, if possible.
int64_t even_length(const CoreSize& size, int64_t bytes);

// The reads of a row of a depthwise window: `tiles` tiles of `taps` positions, which start
// `tile_step` positions apart. Reads are `read_step` positions apart, pixels `reads_apart` reads.
struct RowTaps {
  int64_t tiles, taps, tile_step, read_step, reads_apart;
};
RowTaps taps_by_channel(int lanes, const Geometry& g);

void set_geometry(const CoreSize& size, const Geometry& g, CorePlan& plan);
// Plan a layer without products: the results are the inputs, or entries of `tables`.
CorePlan plan_values(const CoreSize& size, const Geometry& g, const FpgaTables& tables);

}  // namespace ceras
