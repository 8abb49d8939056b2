// Convert bytes of the input port to rows of a channel: a word per (row, channel), in this order. A
// word begins with a new beat. The additional bytes of the last beat are ignored.
module stream_input #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter PORT_BYTES = 8,
    parameter BEATS = 1  // ceil(COLUMNS / PORT_BYTES)
) (
    input logic clk,
    input logic rst,
    input logic port_valid,
    output logic port_ready,
    input logic [8*PORT_BYTES-1:0] port_data,
    output logic out_valid,
    input logic out_ready,
    output logic [8*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic [8*PORT_BYTES*BEATS-1:0] word;
  logic [15:0] beat;
  logic next;

  assign next = out_valid && out_ready;
  assign port_ready = !out_valid || out_ready;
  assign out_data = word[8*COLUMNS-1:0];

  always_ff @(posedge clk) begin
    if (next) begin
      out_valid <= 0;
      out_channel <= out_channel == 16'(CHANNELS - 1) ? 0 : out_channel + 1;
      if (out_channel == 16'(CHANNELS - 1)) out_row <= out_row == 16'(ROWS - 1) ? 0 : out_row + 1;
    end
    if (port_valid && port_ready) begin
      // Beats move down, so that the first beat ends at column 0.
      word <= (8 * PORT_BYTES * BEATS)'({port_data, word} >> (8 * PORT_BYTES));
      beat <= beat == 16'(BEATS - 1) ? 0 : beat + 1;
      out_valid <= beat == 16'(BEATS - 1);
    end
    if (rst) begin
      out_valid <= 0;
      out_row <= 0;
      out_channel <= 0;
      beat <= 0;
    end
  end
endmodule
