// Repeat each row ROW_FACTOR times and each column COLUMN_FACTOR times. The copies of a word follow
// each other.
module repetition #(
    parameter COLUMNS = 1,
    parameter ROW_FACTOR = 1,
    parameter COLUMN_FACTOR = 1
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
    output logic [8*COLUMNS*COLUMN_FACTOR-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic [8*COLUMNS-1:0] word;
  logic [15:0] copy;
  logic last;

  assign last = copy == 16'(ROW_FACTOR - 1);
  assign in_ready = !out_valid || (out_ready && last);

  generate
    for (genvar x = 0; x < COLUMNS * COLUMN_FACTOR; x++) begin : column
      assign out_data[8*x+:8] = word[8*(x/COLUMN_FACTOR)+:8];
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (out_valid && out_ready) begin
      copy <= last ? 0 : copy + 1;
      out_row <= out_row + 1;
    end
    if (in_ready) begin
      out_valid <= in_valid;
      word <= in_data;
      out_row <= 16'(in_row * ROW_FACTOR);
      out_channel <= in_channel;
    end
    if (rst) begin
      out_valid <= 0;
      copy <= 0;
    end
  end
endmodule
