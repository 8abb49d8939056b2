// Rules that the formal proofs of all streams share.

// The rule of a source: VALID and payload remain until READY.
module held #(
    parameter WIDTH = 1
) (
    input logic clk,
    input logic rst,
    input logic valid,
    input logic ready,
    input logic [WIDTH-1:0] payload
);
  logic waits;
  logic [WIDTH-1:0] old;

  always @(posedge clk) begin
    waits <= valid && !ready && !rst;
    if (valid && !ready) old <= payload;
    if (waits && !rst) assert (valid && payload == old);
  end
endmodule

// The same rule, assumed of the environment.
module obeys #(
    parameter WIDTH = 1
) (
    input logic clk,
    input logic rst,
    input logic valid,
    input logic ready,
    input logic [WIDTH-1:0] payload
);
  logic waits;
  logic [WIDTH-1:0] old;

  always @(posedge clk) begin
    waits <= valid && !ready && !rst;
    if (valid && !ready) old <= payload;
    if (waits && !rst) assume (valid && payload == old);
  end
endmodule
