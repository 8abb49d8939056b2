// A value with delays of 0 to STAGES cycles.
module delay_line #(
    parameter WIDTH = 1,
    parameter STAGES = 1,
    parameter RESET = 0
) (
    input logic clk,
    input logic rst,
    input logic [WIDTH-1:0] now,
    output logic [WIDTH*(STAGES+1)-1:0] taps
);
  logic [WIDTH*STAGES-1:0] past;

  assign taps = {past, now};

  always_ff @(posedge clk) begin
    past <= taps[WIDTH*STAGES-1:0];
    if (RESET && rst) past <= '0;
  end
endmodule
