// The output stage of a lane: add the constant and the residual, shift, round half up or half to
// even, add the zero point, and clamp. The latency is six cycles; the shift arrives a cycle later.
// A shift to the right has two stages: by a multiple of eight bits, and by up to seven.
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
  logic signed [31:0] own, other, all;
  logic signed [16:0] near;  // 2^15 at most
  logic signed [32:0] halves, coarse, shifted;
  logic [5:0] right;
  logic [2:0] fine;
  logic [3:0] left, late_left;
  logic to_left, late_to_left, coarse_sticky, sticky, up;
  logic signed [33:0] rounded;

  assign halves = {all, 1'b0};

  always_ff @(posedge clk) begin
    own <= sum + constant;
    other <= 32'($signed(residual)) <<< residual_shift;
    right <= shift > 8'sd33 ? 6'd33 : 6'(shift);
    left <= 4'(-shift);
    to_left <= shift < 0;
    all <= own + other;
    // Sums of more than 16 bits reach the clamp for all shifts to the left.
    near <= all < -32'sd32768 ? -17'sd32768 : all > 32'sd32768 ? 17'sd32768 : 17'(all);
    late_to_left <= to_left;
    late_left <= left;
    // A right shift keeps a guard bit. `sticky` is set if a lower bit was set.
    fine <= right[2:0];
    coarse <= halves >>> {right[5:3], 3'b0};
    coarse_sticky <= |(halves & ~({33{1'b1}} << {right[5:3], 3'b0}));
    shifted <= late_to_left ? (33'(near) <<< late_left) <<< 1 : coarse >>> fine;
    sticky <= !late_to_left && (coarse_sticky || (coarse[6:0] & ~(7'h7f << fine)) != 0);
    rounded <= 34'(shifted >>> 1) + 34'(up) + 34'($signed(zero_point));
    if (rounded < 34'($signed(low))) result <= low;
    else if (rounded > 34'($signed(high))) result <= high;
    else result <= rounded[7:0];
  end

  assign up = shifted[0] && (!to_even || sticky || shifted[1]);
endmodule
