// Read all weights of each filter in order. Counters determine the positions of their inputs.
//
// Taps are in the order of rows of the window, then columns, then channels. The tables have
// {address, rotation} for each row of the window, and {phase, shift} for each column. FILTERS
// filters of a group of channels read the same input.
//
// With BY_ROW, the taps of a row of the window are read for all filters before those of the next
// row. A weight waits for the input: for the row, or in the last row for the channel.
module dense_sequencer #(
    parameter BLOCKS = 1,  // of FILTERS filters
    parameter GROUP_BLOCKS = 1,  // of FILTERS filters in a group of channels
    parameter KERNEL_ROWS = 1,
    parameter KERNEL_COLUMNS = 1,
    parameter CHANNELS = 1,  // of a group
    parameter PHASES = 1,
    parameter FILTERS = 1,
    parameter BY_ROW = 0,
    parameter OFFSET_BITS = 1,
    parameter ROTATION_BITS = 1,
    parameter SHIFT_BITS = 1,
    parameter WEIGHT_BITS = 8,
    parameter [KERNEL_ROWS*(OFFSET_BITS+ROTATION_BITS)-1:0] ROW_TABLE = 0,
    parameter [KERNEL_COLUMNS*(OFFSET_BITS+SHIFT_BITS)-1:0] COLUMN_TABLE = 0,
    parameter UNIFORM = 0,  // the value of all weights, if they are equal
    parameter WEIGHTS = ""
) (
    input logic clk,
    input logic rst,
    input logic go,  // the rows of the next group are complete
    input logic free,  // the sums of the previous filters have left
    input logic next,  // this weight is no longer needed
    input logic [15:0] window_rows,  // of windows, that exist
    input logic [15:0] window_channels,  // of the last row of windows, that exist
    output logic valid,
    output logic first,
    output logic last,
    output logic turn,  // the next weight is for other filters
    output logic group_ends,
    output logic [OFFSET_BITS-1:0] offset,
    output logic [ROTATION_BITS-1:0] rotation,
    output logic [SHIFT_BITS-1:0] shift,
    output logic [FILTERS*WEIGHT_BITS-1:0] weight
);
  localparam ENTRIES = BLOCKS * KERNEL_ROWS * KERNEL_COLUMNS * CHANNELS;
  localparam COUNT_BITS = $clog2(ENTRIES + 1);
  localparam ROW_BITS = KERNEL_ROWS > 1 ? $clog2(KERNEL_ROWS) : 1;
  localparam COLUMN_BITS = KERNEL_COLUMNS > 1 ? $clog2(KERNEL_COLUMNS) : 1;
  localparam CHANNEL_BITS = CHANNELS > 1 ? $clog2(CHANNELS) : 1;
  localparam BLOCK_BITS = BLOCKS > 1 ? $clog2(BLOCKS) : 1;
  localparam INPUT_BITS = $clog2(CHANNELS * (BLOCKS / GROUP_BLOCKS) + 1);

  logic [COUNT_BITS-1:0] count;  // of the weights to fetch
  logic [CHANNEL_BITS-1:0] channel;
  logic [COLUMN_BITS-1:0] column;
  logic [ROW_BITS-1:0] row;
  logic [BLOCK_BITS-1:0] block, row_block;
  logic [INPUT_BITS-1:0] group_channel, input_channel;  // the first of the group, and the current
  logic [OFFSET_BITS-1:0] inner;  // the offset of the channel in the address
  logic [OFFSET_BITS-1:0] group;  // the address of the first channel of the group
  logic [OFFSET_BITS-1:0] row_offset, column_offset;
  logic last_channel, last_column, last_row;  // registers, for a short path to `valid`
  logic running, fetched, advance, there, row_ends, row_block_ends;

  generate
    if (UNIFORM != 0) begin : uniform
      assign weight = {FILTERS{WEIGHT_BITS'(UNIFORM)}};
    end else begin : stored
      (* ram_style = "block" *)
      logic [FILTERS*WEIGHT_BITS-1:0] memory[0:ENTRIES-1];
      logic [FILTERS*WEIGHT_BITS-1:0] fetch;
      if (WEIGHTS != "") initial $readmemh(WEIGHTS, memory);
      always_ff @(posedge clk) begin
        if (!fetched || advance) fetch <= memory[count];
      end
      assign weight = fetch;
    end
  endgenerate

  assign {row_offset, rotation} =
      ROW_TABLE[row*(OFFSET_BITS+ROTATION_BITS)+:OFFSET_BITS+ROTATION_BITS];
  assign {column_offset, shift} =
      COLUMN_TABLE[column*(OFFSET_BITS+SHIFT_BITS)+:OFFSET_BITS+SHIFT_BITS];
  assign offset = row_offset + column_offset + inner;
  assign first = channel == 0 && column == 0 && row == 0;
  assign last = row_ends && last_row;
  assign row_ends = last_channel && last_column;
  assign turn = BY_ROW ? row_ends : last;
  assign row_block_ends = BY_ROW ? row_block == BLOCK_BITS'(BLOCKS - 1) : group_ends;
  assign there = BY_ROW == 0 || 16'(row) < window_rows
      || (last_row && 16'(input_channel) < window_channels);
  assign valid = fetched && there && (!last || free);
  assign advance = valid && next;
  assign group_ends = advance && count == COUNT_BITS'(ENTRIES);

  always_ff @(posedge clk) begin
    if (!running) begin
      running <= go;
    end else if (group_ends) begin
      running <= 0;
      fetched <= 0;
      count <= 0;
    end else if (!fetched || advance) begin
      fetched <= 1;
      count <= count + 1;
    end
    if (advance) begin
      channel <= channel + 1;
      last_channel <= CHANNELS == 1 || (!last_channel && channel == CHANNEL_BITS'(CHANNELS - 2));
      input_channel <= input_channel + 1;
      inner <= inner + OFFSET_BITS'(PHASES);
      if (last_channel) begin
        channel <= 0;
        input_channel <= group_channel;
        inner <= group;
        column <= last_column ? 0 : column + 1;
        last_column <= KERNEL_COLUMNS == 1
            || (!last_column && column == COLUMN_BITS'(KERNEL_COLUMNS - 2));
      end
      if (BY_ROW ? turn && row_block_ends : row_ends) begin
        row <= last_row ? 0 : row + 1;
        last_row <= KERNEL_ROWS == 1 || (!last_row && row == ROW_BITS'(KERNEL_ROWS - 2));
      end
      if (turn) begin
        row_block <= row_block_ends ? 0 : row_block + 1;
        block <= block + 1;
        if (block == BLOCK_BITS'(GROUP_BLOCKS - 1)) begin
          block <= 0;
          group_channel <= row_block_ends ? 0 : group_channel + INPUT_BITS'(CHANNELS);
          input_channel <= row_block_ends ? 0 : group_channel + INPUT_BITS'(CHANNELS);
          group <= row_block_ends ? 0 : group + OFFSET_BITS'(CHANNELS * PHASES);
          inner <= row_block_ends ? 0 : group + OFFSET_BITS'(CHANNELS * PHASES);
        end
      end
    end
    if (rst) begin
      running <= 0;
      fetched <= 0;
      count <= 0;
      channel <= 0;
      input_channel <= 0;
      inner <= 0;
      group <= 0;
      column <= 0;
      row <= 0;
      block <= 0;
      row_block <= 0;
      last_channel <= CHANNELS == 1;
      last_column <= KERNEL_COLUMNS == 1;
      last_row <= KERNEL_ROWS == 1;
      group_channel <= 0;
    end
  end
endmodule
