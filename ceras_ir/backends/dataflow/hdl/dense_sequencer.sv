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

  logic [COUNT_BITS-1:0] count;  // of the weights to fetch
  logic [15:0] channel, column, row, block, row_block, group_channel;
  logic [OFFSET_BITS-1:0] inner;  // the offset of the channel in the address
  logic [OFFSET_BITS-1:0] group;  // the address of the first channel of the group
  logic [OFFSET_BITS-1:0] row_offset, column_offset;
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

  assign {row_offset, rotation} = (OFFSET_BITS + ROTATION_BITS)'(
      ROW_TABLE >> (row * (OFFSET_BITS + ROTATION_BITS)));
  assign {column_offset, shift} = (OFFSET_BITS + SHIFT_BITS)'(
      COLUMN_TABLE >> (column * (OFFSET_BITS + SHIFT_BITS)));
  assign offset = row_offset + column_offset + inner;
  assign first = channel == 0 && column == 0 && row == 0;
  assign last = row_ends && row == 16'(KERNEL_ROWS - 1);
  assign row_ends = channel == 16'(CHANNELS - 1) && column == 16'(KERNEL_COLUMNS - 1);
  assign turn = BY_ROW ? row_ends : last;
  assign row_block_ends = BY_ROW ? row_block == 16'(BLOCKS - 1) : group_ends;
  assign there = BY_ROW == 0 || row < window_rows
      || (row == 16'(KERNEL_ROWS - 1) && 16'(group_channel + channel) < window_channels);
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
      inner <= inner + OFFSET_BITS'(PHASES);
      if (channel == 16'(CHANNELS - 1)) begin
        channel <= 0;
        inner <= group;
        column <= column + 1;
        if (column == 16'(KERNEL_COLUMNS - 1)) begin
          column <= 0;
          if (BY_ROW == 0) row <= row + 1;
        end
      end
      if (turn) begin
        if (BY_ROW == 0 || row_block_ends) row <= last ? 0 : row + 1;
        row_block <= row_block_ends ? 0 : row_block + 1;
        block <= block + 1;
        if (block == 16'(GROUP_BLOCKS - 1)) begin
          block <= 0;
          group_channel <= row_block_ends ? 0 : group_channel + 16'(CHANNELS);
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
      inner <= 0;
      group <= 0;
      column <= 0;
      row <= 0;
      block <= 0;
      row_block <= 0;
      group_channel <= 0;
    end
  end
endmodule
