// The registers of one launch, in the order of their addresses; runtime/fpga_rtl.h has the same.
package layer_registers;
  localparam WORDS = 50;

  typedef struct packed {
    logic [63:0] input_address;  // words are in memory's order: low half first
    logic [63:0] stream_address;
    logic [63:0] residual_address;
    logic [63:0] result_address;
    logic [31:0] mode;
    // Rows of the input, and where the line buffer has them.
    logic [31:0] input_rows;  // of all images, up to the last that is needed
    logic [31:0] height;  // of one
    logic [31:0] slots;
    logic [31:0] ring_bytes;
    logic [31:0] row_runs;
    logic [31:0] run_bytes;
    logic [31:0] input_pitch;
    logic [31:0] row_bytes;
    logic [31:0] row_pitch;
    // Pixels of the result, block by block.
    logic [31:0] rows;
    logic [31:0] columns;
    logic [31:0] block_rows;
    logic [31:0] block_columns;
    logic [31:0] images;
    logic [31:0] stride_y;
    logic [31:0] first_y;
    logic [31:0] extent;  // rows under a window
    // Products of a pixel, tile by tile.
    logic [31:0] kernel_rows;
    logic [31:0] dilation_y;
    logic [31:0] row_taps;
    logic [31:0] run_tiles;
    logic [31:0] column_step;
    logic [31:0] first_position;
    logic [31:0] tap_step;
    logic [31:0] ring_start;
    logic [31:0] ring_row_step;
    logic [31:0] ring_tap_step;
    logic [31:0] ring_block_step;
    logic [31:0] ring_image_step;
    logic [31:0] block_position_step;
    logic [31:0] block_y_step;
    // Channels of the result.
    logic [31:0] outputs;
    logic [31:0] output_tiles;
    logic [31:0] group_tiles;
    logic [31:0] tiles;  // of weights, of one tile of outputs
    logic [31:0] residual_pitch;
    logic [31:0] result_pitch;
    logic [31:0] stream_bytes;
    logic [31:0] blocks;
    logic [7:0] high;
    logic [7:0] low;
    logic [7:0] zero_point;
    logic [7:0] outside;
    logic [15:0] reserved;
    logic [7:0] residual_shift;
    logic [7:0] input_shift;
  } layer_t;

  // Bits of the mode.
  localparam TAKES_VALUES = 0;  // no products: the channel's own values, shifted
  localparam TAKES_GREATEST = 1;
  localparam HAS_RESIDUAL = 2;
  localparam TO_EVEN = 3;
  localparam HAS_TABLE = 4;
  localparam DENSE_RESIDUAL = 5;
  localparam DENSE_RESULT = 6;
endpackage
