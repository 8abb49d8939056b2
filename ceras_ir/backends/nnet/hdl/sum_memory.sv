// The sums of LANES outputs of up to 256 pixels, with a read address and a write address.
module sum_memory #(
    parameter LANES = 16,
    parameter PIXELS = 256
) (
    input logic clk,
    input logic write,
    input logic [7:0] write_address,
    input logic [32*LANES-1:0] write_data,
    input logic [7:0] read_address,
    output logic [32*LANES-1:0] read_data
);
  logic [32*LANES-1:0] memory[0:PIXELS-1];

  always_ff @(posedge clk) begin
    if (write) memory[write_address] <= write_data;
    read_data <= memory[read_address];
  end
endmodule
