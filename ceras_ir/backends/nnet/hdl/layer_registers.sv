// All registers of the core. register_map.py reads this file: the engine's header of them and the
// table in docs/nnet-board.md are made of it, so whoever drives the core has these numbers.
package layer_registers;
  localparam WORDS = 51;

  // Numbers of words of 32 bits behind the AXI4-Lite port.
  localparam CONTROL = 0;  // bit 0 starts; reads as bit 0 busy, 1 done until read, 2 idle, 3 ready
  localparam GLOBAL_ENABLE = 1;  // bit 0: the interrupt
  localparam ENABLE = 2;  // bit 0: the same
  localparam PENDING = 3;  // bit 0: the interrupt; writing it takes it back
  localparam LAYER = 4;  // the first of a layer
  localparam CYCLES = 55;  // of the last launch
  // What the core was built as; they can only be read.
  localparam IDENTITY = 56;
  localparam BUILT_LANES = 57;
  localparam BUILT_BUS_BYTES = 58;
  localparam BUILT_LINE_BYTES = 59;
  localparam BUILT_RESULT_BYTES = 60;
  localparam BUILT_TABLES = 61;  // function tables of a layer; 0 where the core looks up nothing

  localparam VERSION = 1313751813;  // of these registers: NNC and 5, which IDENTITY reads as

  // The registers of one launch, in the order of their addresses. `N bits` is how many of them
  // count, `signed` with the sign.
  typedef struct packed {
    logic [63:0] input_address;  // 40 bits; words are in memory's order: low half first
    logic [63:0] stream_address;  // 40 bits
    logic [63:0] residual_address;  // 40 bits
    logic [63:0] result_address;  // 40 bits
    logic [31:0] mode;  // 8 bits
    // Rows of the input, and where the line buffer has them.
    logic [31:0] input_rows;  // 31 bits; of all images, up to the last that is needed
    logic [31:0] height;  // 23 bits; of one
    logic [31:0] slots;  // 31 bits
    logic [31:0] ring_bytes;  // 31 bits
    logic [31:0] row_runs;  // 31 bits
    logic [31:0] run_bytes;  // 31 bits
    logic [31:0] input_pitch;  // 31 bits
    logic [31:0] row_bytes;  // 23 bits
    logic [31:0] row_pitch;  // 31 bits
    // Pixels of the result, block by block.
    logic [31:0] rows;  // 16 bits
    logic [31:0] columns;  // 16 bits
    logic [31:0] block_rows;  // 9 bits
    logic [31:0] block_columns;  // 9 bits
    logic [31:0] images;  // 16 bits
    logic [31:0] stride_y;  // 16 bits
    logic [31:0] first_y;  // signed 24 bits
    logic [31:0] extent;  // 23 bits; rows under a window
    // Products of a pixel, tile by tile.
    logic [31:0] kernel_rows;  // 16 bits
    logic [31:0] dilation_y;  // 23 bits
    logic [31:0] row_taps;  // 16 bits
    logic [31:0] run_tiles;  // 16 bits
    logic [7:0] repeats;  // pixels side by side of one position, less one
    logic [23:0] column_step;  // 23 bits
    logic [31:0] first_position;  // signed 24 bits
    logic [31:0] tap_step;  // 23 bits
    logic [31:0] ring_start;  // 31 bits
    logic [31:0] ring_row_step;  // 31 bits
    logic [31:0] ring_tap_step;  // 31 bits
    logic [31:0] ring_block_step;  // 31 bits
    logic [31:0] ring_image_step;  // 31 bits
    logic [31:0] block_position_step;  // 23 bits
    logic [31:0] block_y_step;  // 23 bits
    // Channels of the result.
    logic [31:0] outputs;  // 16 bits
    logic [31:0] output_tiles;  // 16 bits
    logic [31:0] group_tiles;  // 16 bits
    logic [31:0] tiles;  // 16 bits; of weights, of one tile of outputs
    logic [31:0] residual_pitch;  // 24 bits
    logic [31:0] result_pitch;  // 24 bits
    logic [31:0] table_bytes;  // 13 bits; of function tables, which the stream begins with
    logic [31:0] stream_bytes;  // 31 bits; of the rest, which each block reads
    logic [31:0] blocks;  // 31 bits
    logic [7:0] high;
    logic [7:0] low;
    logic [7:0] zero_point;
    logic [7:0] outside;
    logic [7:0] reads_after;  // 3 bits; the last pixel of a row
    logic [7:0] reads_apart;  // 4 bits; from one pixel to the next
    logic [15:0] input_shift;  // 5 bits
  } layer_t;

  // Bits of the mode.
  localparam TAKES_VALUES = 0;  // no products: values as they are, shifted
  localparam TAKES_GREATEST = 1;
  localparam HAS_RESIDUAL = 2;
  localparam TO_EVEN = 3;
  localparam DENSE_RESIDUAL = 4;
  localparam DENSE_RESULT = 5;
  localparam BY_CHANNEL = 6;  // an output is made of the channel of its number alone
  localparam MAKES_FLOATS = 7;  // four bytes of an output, which function tables have
endpackage
