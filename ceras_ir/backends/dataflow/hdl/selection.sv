// Pass the words of a range of rows and channels, and a range of their columns.
module selection #(
    parameter COLUMNS = 1,
    parameter ROW = 0,  // the first of OUT_ROWS rows
    parameter OUT_ROWS = 1,
    parameter CHANNEL = 0,
    parameter OUT_CHANNELS = 1,
    parameter COLUMN = 0,
    parameter OUT_COLUMNS = 1
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [8*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [8*OUT_COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic [15:0] row, channel;  // in the range; large before it

  assign row = in_row - 16'(ROW);
  assign channel = in_channel - 16'(CHANNEL);
  assign in_ready = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (in_ready) begin
      out_valid <= in_valid && row < 16'(OUT_ROWS) && channel < 16'(OUT_CHANNELS);
      out_data <= in_data[8*COLUMN+:8*OUT_COLUMNS];
      out_row <= row;
      out_channel <= channel;
    end
    if (rst) out_valid <= 0;
  end
endmodule
