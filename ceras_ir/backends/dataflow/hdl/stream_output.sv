// Convert rows of a channel to bytes of the output port: for each row and each channel, the columns
// from the left. The last beat of a word is padded with zeros. `port_last` marks the end of a
// frame.
module stream_output #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter UNSIGNED = 0,  // a byte is larger than the column by half of the range
    parameter BIPOLAR = 0,  // a byte is 1, or -1 if the bit of the column is set
    parameter PORT_BYTES = 8,
    parameter BEATS = 1  // ceil(COLUMNS / PORT_BYTES)
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic port_valid,
    input logic port_ready,
    output logic [8*PORT_BYTES-1:0] port_data,
    output logic port_last
);
  logic [8*PORT_BYTES*BEATS-1:0] word;
  logic [15:0] beat;
  logic ends, last_word;
  logic [8*COLUMNS-1:0] bytes;

  always_comb begin
    for (int x = 0; x < COLUMNS; x++) begin
      bytes[8*x+:8] = 8'($signed(in_data[BITS*x+:BITS]));
      if (UNSIGNED) bytes[8*x+:8] = bytes[8*x+:8] + (8'd1 << (BITS - 1));
      if (BIPOLAR) bytes[8*x+:8] = {bytes[8*x+:7], 1'b1};
    end
  end

  assign ends = beat == 16'(BEATS - 1);
  assign in_ready = !port_valid || (port_ready && ends);
  assign port_data = word[8*PORT_BYTES-1:0];
  assign port_last = ends && last_word;

  always_ff @(posedge clk) begin
    if (port_valid && port_ready) begin
      word <= word >> (8 * PORT_BYTES);
      beat <= ends ? 0 : beat + 1;
      if (ends) port_valid <= 0;
    end
    if (in_valid && in_ready) begin
      word <= (8 * PORT_BYTES * BEATS)'(bytes);
      last_word <= in_row == 16'(ROWS - 1) && in_channel == 16'(CHANNELS - 1);
      port_valid <= 1;
    end
    if (rst) begin
      port_valid <= 0;
      beat <= 0;
    end
  end
endmodule
