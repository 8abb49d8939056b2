// A function of int8 by a table for two lanes, which share one memory.
module lane_table #(
    parameter BUS_BYTES = 16
) (
    input logic clk,
    input logic write,
    input logic [7:0] write_beat,
    input logic [8*BUS_BYTES-1:0] write_data,
    input logic use_table,
    input logic [15:0] in_data,
    output logic [15:0] out_data
);
  localparam LANE = $clog2(BUS_BYTES);
  localparam WORDS = 256 / BUS_BYTES;
  logic [8*BUS_BYTES-1:0] memory[0:WORDS-1];
  logic [8*BUS_BYTES-1:0] first, second;
  logic [15:0] index;
  logic used;

  always_ff @(posedge clk) begin
    if (write) memory[write_beat[7-LANE:0]] <= write_data;
    first <= memory[in_data[7:LANE]];
    second <= memory[in_data[15:8+LANE]];
    index <= in_data;
    used <= use_table;
  end

  assign out_data = used ? {second[8*index[8+:LANE]+:8], first[8*index[0+:LANE]+:8]} : index;
endmodule
