// A ring with the last rows of a stream: the second operand of an addition, which waits for the
// first. Any channel of a complete row can be read.
//
// Rows are counted over all frames, modulo 2^16. CAPACITY, a power of two, follows from the plan.
// With less capacity, the path of the first operand would starve.
module row_ring #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter CAPACITY = 2,
    parameter ADDRESS_BITS = 1  // of CAPACITY * CHANNELS words
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [8*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic [15:0] rows_written,
    input logic [15:0] rows_freed,
    input logic read,
    input logic [15:0] read_row,
    input logic [15:0] read_channel,
    output logic [8*COLUMNS-1:0] read_data
);
  logic [8*COLUMNS-1:0] memory[0:CAPACITY*CHANNELS-1];
  logic [15:0] frame, row;

  assign row = frame + in_row;
  assign in_ready = 16'(row - rows_freed) < 16'(CAPACITY);

  function automatic logic [ADDRESS_BITS-1:0] address(input logic [15:0] at, input logic [15:0] channel);
    address = ADDRESS_BITS'((at & 16'(CAPACITY - 1)) * CHANNELS + channel);
  endfunction

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) memory[address(row, in_channel)] <= in_data;
    if (read) read_data <= memory[address(read_row, read_channel)];
  end

  always_ff @(posedge clk) begin
    if (in_valid && in_ready && in_channel == 16'(CHANNELS - 1)) begin
      rows_written <= row + 1;
      if (in_row == 16'(ROWS - 1)) frame <= row + 1;
    end
    if (rst) begin
      rows_written <= 0;
      frame <= 0;
    end
  end
endmodule
