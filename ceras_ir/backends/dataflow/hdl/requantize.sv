// Requantize: floor(sum / 2^SHIFT), clamped. The sum includes rounding and zero points.
// A negative SHIFT multiplies.
module requantize #(
    parameter SUM_BITS = 32,
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127
) (
    input logic signed [SUM_BITS-1:0] sum,
    output logic [7:0] result
);
  localparam UP = SHIFT < 0 ? -SHIFT : 0;
  localparam DOWN = SHIFT < 0 ? 0 : SHIFT;
  localparam BITS = SUM_BITS + UP < 10 ? 10 : SUM_BITS + UP;

  logic signed [BITS-1:0] wide;

  assign wide = (BITS'(sum) <<< UP) >>> DOWN;

  always_comb begin
    if (wide < BITS'(LOW)) result = 8'(LOW);
    else if (wide > BITS'(HIGH)) result = 8'(HIGH);
    else result = wide[7:0];
  end
endmodule
