// Requantize: floor(sum / 2^SHIFT), clamped. The sum includes rounding and zero points.
// A negative SHIFT multiplies.
module requantize #(
    parameter SUM_BITS = 32,
    parameter RESULT_BITS = 8,
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127
) (
    input logic signed [SUM_BITS-1:0] sum,
    output logic [RESULT_BITS-1:0] result
);
  localparam UP = SHIFT < 0 ? -SHIFT : 0;
  localparam DOWN = SHIFT < 0 ? 0 : SHIFT;
  localparam BITS = SUM_BITS + UP < 10 ? 10 : SUM_BITS + UP;

  logic signed [BITS-1:0] wide;

  assign wide = (BITS'(sum) <<< UP) >>> DOWN;

  always_comb begin
    if (wide < BITS'(LOW)) result = RESULT_BITS'(LOW);
    else if (wide > BITS'(HIGH)) result = RESULT_BITS'(HIGH);
    else result = wide[RESULT_BITS-1:0];
  end
endmodule
