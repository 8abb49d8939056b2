// Function tables of int8 for two lanes, which share a memory with two ports. Each lane selects a
// table. There are no lookups while tables are written. A word of the memory has four entries of a
// function of int8, or a float.
module lane_table #(
    parameter TABLES = 16,
    parameter NUMBER_BITS = $clog2(TABLES)
) (
    input logic clk,
    input logic write,
    input logic [NUMBER_BITS+4:0] write_place,  // in words of 64 bits
    input logic [63:0] write_data,
    input logic use_table,
    input logic floats,
    input logic [2*NUMBER_BITS-1:0] number,
    input logic [15:0] in_data,
    output logic [15:0] out_data,
    output logic [63:0] out_floats
);
  localparam PLACE_BITS = NUMBER_BITS + 6;

  logic [31:0] memory[0:64*TABLES-1];
  logic [31:0] first, second;
  logic [PLACE_BITS-1:0] first_place, second_place;
  logic [15:0] index;
  logic used;

  // The number of float tables is a quarter of that.
  assign first_place = write ? {write_place, 1'b0}
      : floats ? PLACE_BITS'({number[0+:NUMBER_BITS], in_data[7:0]})
      : {number[0+:NUMBER_BITS], in_data[7:2]};
  assign second_place = write ? {write_place, 1'b1}
      : floats ? PLACE_BITS'({number[NUMBER_BITS+:NUMBER_BITS], in_data[15:8]})
      : {number[NUMBER_BITS+:NUMBER_BITS], in_data[15:10]};

  always_ff @(posedge clk) begin
    if (write) begin
      memory[first_place] <= write_data[31:0];
      memory[second_place] <= write_data[63:32];
    end else begin
      first <= memory[first_place];
      second <= memory[second_place];
    end
    index <= in_data;
    used <= use_table;
  end

  assign out_floats = {second, first};
  assign out_data = used ? {second[8*index[9:8]+:8], first[8*index[1:0]+:8]} : index;
endmodule
