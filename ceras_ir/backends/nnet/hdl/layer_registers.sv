// The registers of the core. `circuits.py` reads this file, and generates the header of the engine
// and the table in docs/nnet-board.md.
package layer_registers;
  localparam WORDS = 51;

  // The indices of words of 32 bits on the AXI4-Lite port.
  localparam CONTROL = 0;  // write: bit 0 starts the layer, 4 the queue, 5 aborts; read: bit 0 busy, 1 done until read, 2 idle, 3 ready
  localparam GLOBAL_ENABLE = 1;  // bit 0: the interrupt
  localparam ENABLE = 2;  // bit 0: the same
  localparam PENDING = 3;  // bit 0: the interrupt; writing 1 clears it
  localparam LAYER = 4;  // the first word of a layer
  localparam CYCLES = 55;  // read only; cycles of the last launch or queue
  localparam IDENTITY = 56;  // read only; the version of the registers
  localparam BUILT_LANES = 57;  // read only
  localparam BUILT_BUS_BYTES = 58;  // read only
  localparam BUILT_LINE_BYTES = 59;  // read only
  localparam BUILT_RESULT_BYTES = 60;  // read only
  localparam BUILT_TABLES = 61;  // read only; function tables of a layer; 0 if the core has no tables
  localparam STATUS = 62;  // read only; the last launch: bit 0 read error, 1 write error, 2 aborted, 3 rejected registers
  localparam LAUNCHES = 63;  // read only; layers that are finished since the last start
  localparam QUEUE_ADDRESS = 64;  // the low half, a multiple of 256
  localparam QUEUE_ADDRESS_HIGH = 65;
  localparam QUEUE_LENGTH = 66;  // layers of the queue

  localparam VERSION = 1313751815;  // of these registers: NNC and 7; the value of IDENTITY
  localparam DESCRIPTOR_BYTES = 256;  // from layer to layer of a queue; a layer has the first WORDS words

  // The registers of a launch, in the order of addresses. `N bits` is the number of used bits,
  // `signed` including the sign; `not 0` if
  // a launch needs it. The core rejects other values.
  typedef struct packed {
    logic [63:0] input_address;  // 40 bits; the low half is the first word
    logic [63:0] stream_address;  // 40 bits
    logic [63:0] residual_address;  // 40 bits
    logic [63:0] result_address;  // 40 bits
    logic [31:0] mode;  // 10 bits
    // Rows of the input, and their positions in the line buffer.
    logic [31:0] input_rows;  // 31 bits, not 0; rows of all images, up to the last that is needed
    logic [31:0] height;  // 23 bits, not 0; rows of an image
    logic [31:0] slots;  // 31 bits, not 0
    logic [31:0] ring_bytes;  // 31 bits, not 0
    logic [31:0] row_runs;  // 31 bits, not 0
    logic [31:0] run_bytes;  // 31 bits, not 0
    logic [31:0] input_pitch;  // 31 bits
    logic [31:0] row_bytes;  // 23 bits, not 0
    logic [31:0] row_pitch;  // 31 bits
    // Pixels of the result, in blocks.
    logic [31:0] rows;  // 16 bits, not 0
    logic [31:0] columns;  // 16 bits, not 0
    logic [31:0] block_rows;  // 9 bits, not 0
    logic [31:0] block_columns;  // 9 bits, not 0
    logic [31:0] images;  // 16 bits, not 0
    logic [31:0] stride_y;  // 16 bits
    logic [31:0] first_y;  // signed 24 bits
    logic [31:0] extent;  // 23 bits, not 0; rows of a window
    // Products of a pixel, in tiles.
    logic [31:0] kernel_rows;  // 16 bits, not 0
    logic [31:0] dilation_y;  // 23 bits
    logic [31:0] row_taps;  // 16 bits, not 0
    logic [31:0] run_tiles;  // 16 bits, not 0
    logic [7:0] repeats;  // adjacent pixels with equal positions, minus one
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
    logic [31:0] outputs;  // 16 bits, not 0
    logic [31:0] output_tiles;  // 16 bits, not 0
    logic [31:0] group_tiles;  // 16 bits, not 0
    logic [31:0] tiles;  // 16 bits; tiles of weights per tile of outputs
    logic [31:0] residual_pitch;  // 24 bits
    logic [31:0] result_pitch;  // 24 bits
    logic [31:0] table_bytes;  // 13 bits; function tables at the start of the stream
    logic [31:0] stream_bytes;  // 31 bits, not 0; the rest of the stream, which each block reads
    logic [31:0] blocks;  // 31 bits, not 0
    logic [7:0] high;
    logic [7:0] low;
    logic [7:0] zero_point;
    logic [7:0] outside;
    logic [7:0] reads_after;  // 3 bits; reads after the last pixel of a row
    logic [7:0] reads_apart;  // 4 bits, not 0; reads from pixel to pixel
    logic [15:0] input_shift;  // 5 bits
  } layer_t;

  // The bits of `mode`.
  localparam TAKES_VALUES = 0;  // no products: shifted values
  localparam TAKES_GREATEST = 1;
  localparam HAS_RESIDUAL = 2;
  localparam TO_EVEN = 3;
  localparam DENSE_RESIDUAL = 4;
  localparam DENSE_RESULT = 5;
  localparam BY_CHANNEL = 6;  // depthwise
  localparam MAKES_FLOATS = 7;  // floats of function tables, four bytes per output
  localparam FOUR_BITS = 8;  // each weight of the stream
  localparam TWO_BITS = 9;  // the same

  // The bits of `control` that are written.
  localparam START = 0;
  localparam START_QUEUE = 4;
  localparam ABORT = 5;
  // The bits of `control` that are read.
  localparam BUSY = 0;
  localparam DONE = 1;
  localparam IDLE = 2;
  localparam READY = 3;

  // The bits of `status`.
  localparam READ_FAILED = 0;
  localparam WRITE_FAILED = 1;
  localparam ABORTED = 2;
  localparam REJECTED = 3;
endpackage
