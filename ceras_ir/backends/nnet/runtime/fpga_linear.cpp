// Convolution and matrix product: a 16-lane multiplier array with a line buffer.
//
// For an M-block of pixels and up to 256 output channels, K-blocks of products are processed in
// order. Convolutions load each row of the input a single time into the line buffer, from which
// they gather patches. Products load rows from memory.
#include "fpga_epilogue.h"

namespace ceras {
namespace {

int at_most(int value, int limit) { return value < limit ? value : limit; }

// Complete rows of the result, or a part of a row.
struct Block {
  int row, column;    // of the first pixel
  int columns;        // pixels of each row
  int64_t first;      // number of the first pixel in the image
  int pixels;
};

// The line buffer of an image. Rows [`next`, ...) are not loaded yet; row y is in slot y % slots.
struct Lines {
  int slots;
  int row_bytes;
  int next;
};

// Load the rows from `begin` to `end` that are missing. Pixels are `pitch` apart in memory.
void load_lines(Lines& lines, const FpgaWindow& w, const int8_t* image, int64_t pitch, int begin,
                int end, int8_t* buffer) {
  const int from = begin > lines.next ? begin : lines.next;
  const int until = at_most(end, w.height);
  // Contiguous pixels are read in a single burst.
  const bool dense = pitch == w.channels;
  const int bursts = dense ? 1 : w.width, length = dense ? lines.row_bytes : w.channels;
  for (int y = from; y < until; ++y) {
    const int8_t* row = image + static_cast<int64_t>(y) * w.width * pitch;
    int8_t* slot = buffer + y % lines.slots * lines.row_bytes;
    for (int x = 0; x < bursts; ++x)
      for (int i = 0; i < length; ++i) {
        slot[x * length + i] = row[x * pitch + i];
      }
  }
  if (until > lines.next) lines.next = until;
}

// The elements [start, start + count) of a row on chip, or `outside` outside the row.
void copy_part(const int8_t* row, int length, int start, int count, Number outside, Number* to) {
  const int before = start < 0 ? at_most(-start, count) : 0;
  const int end = length - start < count ? length - start : count;
  for (int i = 0; i < before; ++i) to[i] = outside;
  for (int i = before; i < end; ++i) to[i] = number(row[start + i]);
  for (int i = end > before ? end : before; i < count; ++i) to[i] = outside;
}

// The products [first, first + count) of the window of an output pixel, with `outside` for padding.
void load_patch(const FpgaWindow& w, const Lines& lines, const int8_t* buffer, int row, int column,
                int first, int count, Number outside, Number* patch) {
  // Adjacent taps are contiguous in memory.
  const bool dense = w.dilation_x == 1;
  const int run = dense ? w.kernel_width * w.channels : w.channels;
  const int top = row * w.stride_y - w.top, left = column * w.stride_x - w.left;
  for (int done = 0; done < count;) {
    const int at = first + done, tap = at / run, inside = at % run;
    const int part = at_most(run - inside, count - done);
    const int y = top + (dense ? tap : tap / w.kernel_width) * w.dilation_y;
    const int x = left + (dense ? 0 : tap % w.kernel_width * w.dilation_x);
    if (y < 0 || y >= w.height)
      for (int i = 0; i < part; ++i) patch[done + i] = outside;
    else
      copy_part(buffer + y % lines.slots * lines.row_bytes, lines.row_bytes,
                x * w.channels + inside, part, outside, patch + done);
    done += part;
  }
}

// `groups` groups of products of 16 output channels.
void load_weights(const int8_t* weights, int groups, Weight* tile) {
  for (int i = 0; i < groups * GROUP * LANES; ++i) {
    tile[i] = weights[i];
  }
}

// The blocks with nonzero weights from product `k` on, for the 16 output channels of `tile`; null
// for all blocks.
const uint8_t* live_of(const FpgaLinear& layer, int tile, int length, int k) {
  if (layer.live == nullptr) return nullptr;
  return layer.live + static_cast<int64_t>(tile) * ((length + LANES - 1) / LANES) + k / LANES;
}

// The end of the sequence of equal blocks from `from` on.
int end_of_run(const uint8_t* live, int from, int groups) {
  if (live == nullptr) return groups;
  constexpr int STEP = LANES / GROUP;
  int until = from + STEP;
  while (until < groups && live[until / STEP] == live[from / STEP]) until += STEP;
  return at_most(until, groups);
}

// Multiply all products of the block for output channels [first, first + channels).
void multiply_block(const FpgaLinear& layer, const Lines& lines, const Block& block,
                    const int8_t* image, const int8_t* weights, int first, int channels,
                    FpgaBuffers& b) {
  const FpgaWindow& w = layer.window;
  const int length = layer.product ? w.channels : w.kernel_height * w.kernel_width * w.channels;
  const int tiles = (channels + LANES - 1) / LANES, sums = block.pixels * LANES;
  const Number outside = number(static_cast<int8_t>(layer.input_zero));
  for (int tile = 0; tile < tiles; ++tile)
    for (int i = 0; i < sums; ++i) b.sums[tile][i] = 0;
  for (int k = 0; k < length; k += FPGA_KBLOCK) {
    // The weights after the last product are zero.
    const int count = at_most(length - k, FPGA_KBLOCK), groups = (count + GROUP - 1) / GROUP;
    for (int p = 0; p < block.pixels; ++p) {
      Number* patch = b.input + p * FPGA_KBLOCK;
      if (layer.product)
        copy_part(image + (block.first + p) * layer.input_pitch, length, k, count, outside, patch);
      else
        load_patch(w, lines, b.lines, block.row + p / block.columns,
                   block.column + p % block.columns, k, count, outside, patch);
    }
    for (int tile = 0; tile < tiles; ++tile) {
      const int8_t* of_tile = weights + fpga_weight_bytes(first + tile * LANES, length) + k * LANES;
      const uint8_t* live = live_of(layer, first / LANES + tile, length, k);
      for (int from = 0, until; from < groups; from = until) {
        until = end_of_run(live, from, groups);
        if (live != nullptr && live[from / (LANES / GROUP)] == 0) continue;
        load_weights(of_tile + from * GROUP * LANES, until - from, b.weights);
        multiply_rows(b.input + from * GROUP, FPGA_KBLOCK, b.weights, until - from, block.pixels,
                      b.sums[tile]);
      }
    }
  }
}

// The memory that a layer accesses in addition to the input.
struct Ends {
  const int8_t* weights;
  const int32_t* constants;
  const int8_t* shifts;
  const FpgaTables& tables;
  const int8_t* residual;
  int8_t* result;
};

// Compute a block for all output channels.
void run_block(const FpgaLinear& layer, const Lines& lines, const Block& block,
               const int8_t* image, const Ends& ends, FpgaBuffers& b) {
  const FpgaEnd end{layer.rescale, layer.residual_zero, layer.residual_shift, layer.residual_pitch,
                    layer.result_pitch};
  const int8_t* residual =
      ends.residual != nullptr ? ends.residual + block.first * layer.residual_pitch : nullptr;
  for (int first = 0; first < layer.outputs; first += FPGA_NBLOCK) {
    const int channels = at_most(layer.outputs - first, FPGA_NBLOCK);
    multiply_block(layer, lines, block, image, ends.weights, first, channels, b);
    for (int o = 0; o < channels; o += LANES)
      fpga_finish(end, block.pixels, first + o, at_most(channels - o, LANES), ends.constants,
                  ends.shifts, ends.tables, residual,
                  ends.result + block.first * layer.result_pitch, b.sums[o / LANES]);
  }
}

}  // namespace

void fpga_linear_circuit(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                         const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                         const int8_t* residual, int8_t* result, FpgaBuffers& b) {
  const FpgaWindow& w = layer.window;
  const Ends ends{weights, constants, shifts, tables, residual, result};
  if (layer.product) {
    for (int64_t pixel = 0; pixel < layer.pixels; pixel += FPGA_MBLOCK) {
      const int64_t left = layer.pixels - pixel;
      const int pixels = left < FPGA_MBLOCK ? static_cast<int>(left) : FPGA_MBLOCK;
      run_block(layer, {1, 0, 0}, {0, 0, pixels, pixel, pixels}, input, ends, b);
    }
    return;
  }
  const int row_bytes = w.width * w.channels;
  const int extent = (w.kernel_height - 1) * w.dilation_y + 1;
  const int slots = FPGA_LINE_BYTES / row_bytes;
  // The number of complete rows of the result that fit the block and the line buffer.
  int rows = (slots - extent) / w.stride_y + 1;
  if (rows * static_cast<int64_t>(w.columns) > FPGA_MBLOCK) rows = FPGA_MBLOCK / w.columns;
  if (rows < 1) rows = 1;
  for (int image = 0; image < layer.images; ++image) {
    const int8_t* at = input + static_cast<int64_t>(image) * w.height * w.width * layer.input_pitch;
    Lines lines{slots, row_bytes, 0};
    for (int row = 0; row < w.rows; row += rows) {
      const int whole = at_most(w.rows - row, rows);
      const int top = row * w.stride_y - w.top;
      load_lines(lines, w, at, layer.input_pitch, top, top + (whole - 1) * w.stride_y + extent, b.lines);
      for (int column = 0; column < w.columns; column += FPGA_MBLOCK) {
        const int columns = at_most(w.columns - column, FPGA_MBLOCK);
        const int64_t first =
            (static_cast<int64_t>(image) * w.rows + row) * w.columns + column;
        run_block(layer, lines, {row, column, columns, first, whole * columns}, at, ends, b);
      }
    }
  }
}

}  // namespace ceras
