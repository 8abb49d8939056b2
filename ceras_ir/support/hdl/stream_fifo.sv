// A queue for words of a stream, for example the first operand of an addition with a later
// second operand.
module stream_fifo #(
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter ROW_BITS = 1,
    parameter CHANNEL_BITS = 1,
    parameter DEPTH = 2,
    parameter ADDRESS_BITS = 1  // of DEPTH words
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [BITS*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam WIDTH = BITS * COLUMNS + ROW_BITS + CHANNEL_BITS;

  logic [WIDTH-1:0] memory[0:DEPTH-1];
  logic [WIDTH-1:0] word;
  logic [ADDRESS_BITS-1:0] written, read;  // addresses of the next write and the next read
  logic [ADDRESS_BITS:0] count;
  logic write, step;

  assign in_ready = count != (ADDRESS_BITS + 1)'(DEPTH);
  assign write = in_valid && in_ready;
  assign step = count != 0 && (!out_valid || out_ready);
  assign out_data = word[WIDTH-1-:BITS*COLUMNS];
  assign out_row = 16'(word[CHANNEL_BITS+:ROW_BITS]);
  assign out_channel = 16'(word[0+:CHANNEL_BITS]);

  always_ff @(posedge clk) begin
    if (write) begin
      memory[written] <= {
        in_data, ROW_BITS'(in_row), CHANNEL_BITS'(in_channel)
      };
    end
    if (step) word <= memory[read];
  end

  function automatic logic [ADDRESS_BITS-1:0] next(input logic [ADDRESS_BITS-1:0] at);
    next = at == ADDRESS_BITS'(DEPTH - 1) ? '0 : at + 1;
  endfunction

  always_ff @(posedge clk) begin
    if (write) written <= next(written);
    if (step) read <= next(read);
    count <= count + (ADDRESS_BITS + 1)'(write) - (ADDRESS_BITS + 1)'(step);
    if (step || out_ready) out_valid <= step;
    if (rst) begin
      written <= 0;
      read <= 0;
      count <= 0;
      out_valid <= 0;
    end
  end
endmodule
