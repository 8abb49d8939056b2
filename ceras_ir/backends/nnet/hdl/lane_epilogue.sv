// The output stage of a lane: add the constant and the residual, shift, round half up or half to
// even, add the zero point, and clamp. The latency is five cycles; the shift arrives two cycles
// later.
module lane_epilogue (
    input logic clk,
    input logic [31:0] sum,
    input logic [31:0] constant,
    input logic [7:0] residual,  // 0 without one
    input logic [4:0] residual_shift,
    input logic signed [7:0] shift,  // to the left if negative, by at most 8
    input logic to_even,
    input logic [7:0] zero_point,
    input logic [7:0] low,
    input logic [7:0] high,
    output logic [7:0] result
);
  logic signed [31:0] own, other, all, near;
  logic signed [32:0] halves, left, shifted;
  logic [5:0] right;
  logic sticky, up;
  logic signed [33:0] rounded;

  // Sums of more than 16 bits reach the clamp for all shifts to the left.
  assign near = all < -32'sd32768 ? -32'sd32768 : all > 32'sd32768 ? 32'sd32768 : all;
  assign left = 33'(near) <<< 4'(-shift);
  assign right = shift > 8'sd33 ? 6'd33 : 6'(shift);
  assign halves = {all, 1'b0};

  always_ff @(posedge clk) begin
    own <= sum + constant;
    other <= 32'($signed(residual)) <<< residual_shift;
    all <= own + other;
    // A right shift keeps a guard bit. `sticky` is set if a lower bit was set.
    shifted <= halves >>> right;
    sticky <= |(halves & ~({33{1'b1}} << right));
    if (shift < 0) begin
      shifted <= left <<< 1;
      sticky <= 0;
    end
    rounded <= 34'(shifted >>> 1) + 34'(up) + 34'($signed(zero_point));
    if (rounded < 34'($signed(low))) result <= low;
    else if (rounded > 34'($signed(high))) result <= high;
    else result <= rounded[7:0];
  end

  assign up = shifted[0] && (!to_even || sticky || shifted[1]);
endmodule
