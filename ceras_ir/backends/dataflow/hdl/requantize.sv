// Requantize: floor(sum / 2^SHIFT), clamped. The sum includes rounding and zero points.
// A negative SHIFT multiplies. If TIES, a sum without fraction is a tie. The result is then
// decreased by 1 if it is odd (TIES is 1) or even (TIES is 2).
module requantize #(
    parameter SUM_BITS = 32,
    parameter RESULT_BITS = 8,
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127,
    parameter TIES = 0
) (
    input logic signed [SUM_BITS-1:0] sum,
    input logic exact,  // the sum is not rounded down
    output logic [RESULT_BITS-1:0] result
);
  localparam UP = SHIFT < 0 ? -SHIFT : 0;
  localparam DOWN = SHIFT < 0 ? 0 : SHIFT;
  localparam BITS = SUM_BITS + UP < 10 ? 10 : SUM_BITS + UP;

  logic signed [BITS-1:0] scaled, floor, wide;
  logic tie;

  assign scaled = BITS'(sum) <<< UP;
  assign floor = scaled >>> DOWN;
  assign tie = TIES != 0 && exact && floor <<< DOWN == scaled;

  always_comb begin
    wide = floor;
    if (TIES == 1) wide[0] = floor[0] && !tie;
    if (TIES == 2) wide = floor - BITS'(tie && !floor[0]);
  end

  always_comb begin
    if (wide < BITS'(LOW)) result = RESULT_BITS'(LOW);
    else if (wide > BITS'(HIGH)) result = RESULT_BITS'(HIGH);
    else result = wide[RESULT_BITS-1:0];
  end
endmodule
