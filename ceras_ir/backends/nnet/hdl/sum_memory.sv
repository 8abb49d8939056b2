// The sums of LANES outputs of up to 256 pixels, with a read address and a write address. The latency
// of a read is two cycles: memory and its output register.
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
  logic [32*LANES-1:0] word;

  always_ff @(posedge clk) begin
    if (write) memory[write_address] <= write_data;
    word <= memory[read_address];
    read_data <= word;
  end
endmodule
