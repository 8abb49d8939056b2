// A function table of int8, for all columns of a word in parallel. Channels can have different
// tables; NUMBERS has the index of the table of each channel.
module function_table #(
    parameter COLUMNS = 1,
    parameter CHANNELS = 1,
    parameter TABLES = 1,
    parameter NUMBERS = "",
    parameter TABLE = ""  // 256 entries of each table; the index is the unsigned byte
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
    output logic [8*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic middle_valid;
  logic [15:0] middle_row, middle_channel;

  assign in_ready = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (in_ready) begin
      middle_valid <= in_valid;
      middle_row <= in_row;
      middle_channel <= in_channel;
      out_valid <= middle_valid;
      out_row <= middle_row;
      out_channel <= middle_channel;
    end
    if (rst) begin
      middle_valid <= 0;
      out_valid <= 0;
    end
  end

  localparam NUMBER_BITS = TABLES > 1 ? $clog2(TABLES) : 1;
  localparam ADDRESS_BITS = TABLES > 1 ? 8 + NUMBER_BITS : 8;
  localparam CHANNEL_BITS = CHANNELS > 1 ? $clog2(CHANNELS) : 1;

  logic [NUMBER_BITS-1:0] number;

  generate
    if (TABLES > 1) begin : by_channel
      logic [NUMBER_BITS-1:0] numbers[0:CHANNELS-1];
      if (NUMBERS != "") initial $readmemh(NUMBERS, numbers);
      assign number = numbers[CHANNEL_BITS'(in_channel)];
    end else assign number = 0;
  endgenerate

  // A memory per column, because yosys cannot map a memory with several ports.
  generate
    for (genvar x = 0; x < COLUMNS; x++) begin : column
      logic [7:0] memory[0:256*TABLES-1];
      if (TABLE != "") initial $readmemh(TABLE, memory);
      logic [7:0] found;
      always_ff @(posedge clk) begin
        if (in_ready) begin
          found <= memory[ADDRESS_BITS'({number, in_data[8*x+:8]})];
          out_data[8*x+:8] <= found;
        end
      end
    end
  endgenerate
endmodule
