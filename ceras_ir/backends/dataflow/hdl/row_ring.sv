// A ring with the last rows of a stream: the second operand of an addition, which waits for the
// first. Any channel of a complete row can be read.
//
// Rows are counted over all frames, modulo twice the CAPACITY: a power of two, which follows from
// the plan. With less capacity, the path of the first operand would starve. Rows start and complete
// in order, and wait only with the first channel.
module row_ring #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter CAPACITY = 2,
    parameter ADDRESS_BITS = 1  // of CAPACITY * CHANNELS words
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic [$clog2(CAPACITY):0] rows_written,
    input logic [$clog2(CAPACITY):0] rows_freed,
    input logic read,
    input logic [$clog2(CAPACITY):0] read_row,
    input logic [15:0] read_channel,
    output logic [BITS*COLUMNS-1:0] read_data  // after two reads
);
  localparam ROW_BITS = $clog2(CAPACITY) + 1;
  localparam CHANNEL_BITS = CHANNELS > 1 ? $clog2(CHANNELS) : 1;

  logic [BITS*COLUMNS-1:0] memory[0:CAPACITY*CHANNELS-1];
  logic [BITS*COLUMNS-1:0] data, word;
  logic [ROW_BITS-1:0] frame, row, started, complete;
  logic [CHANNEL_BITS-1:0] channel;
  logic [ADDRESS_BITS-1:0] write_address;
  logic take, write;

  function automatic logic [CAPACITY*ADDRESS_BITS-1:0] starts();
    for (int n = 0; n < CAPACITY; n++)
    starts[n*ADDRESS_BITS+:ADDRESS_BITS] = ADDRESS_BITS'(n * CHANNELS);
  endfunction

  localparam [CAPACITY*ADDRESS_BITS-1:0] STARTS = starts();

  function automatic logic [ADDRESS_BITS-1:0] address(input logic [ROW_BITS-1:0] at,
                                                      input logic [CHANNEL_BITS-1:0] of);
    address = STARTS[(at&ROW_BITS'(CAPACITY-1))*ADDRESS_BITS+:ADDRESS_BITS] + ADDRESS_BITS'(of);
  endfunction

  assign row = frame + ROW_BITS'(in_row);
  assign channel = CHANNEL_BITS'(in_channel);
  assign in_ready = channel != 0 || ROW_BITS'(started - rows_freed) != ROW_BITS'(CAPACITY);
  assign take = in_valid && in_ready;

  always_ff @(posedge clk) begin
    write <= take && !rst;
    write_address <= address(row, channel);
    word <= in_data;
    if (write) memory[write_address] <= word;
    if (read) begin
      data <= memory[address(read_row, CHANNEL_BITS'(read_channel))];
      read_data <= data;
    end
  end

  // A complete row is counted when its last word is in the memory.
  always_ff @(posedge clk) begin
    if (take && channel == 0) started <= started + 1;
    if (take && channel == CHANNEL_BITS'(CHANNELS - 1)) begin
      complete <= complete + 1;
      if (in_row == 16'(ROWS - 1)) frame <= row + 1;
    end
    rows_written <= complete;
    if (rst) begin
      started <= 0;
      complete <= 0;
      rows_written <= 0;
      frame <= 0;
    end
  end
endmodule
