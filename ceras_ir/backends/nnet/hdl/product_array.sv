// Multiply LANES values by a stationary tile of LANES x LANES weights: LANES sums per cycle. The
// next tile is loaded during this time. Chains of up to CHAIN products are summed from the top to
// the bottom; each row works a cycle after the row above, and changes weights accordingly. The sums
// are valid CHAIN + 2 cycles after the values.
//
// The weights arrive row by row, with the first rows of all chains before the second rows. Beats are
// expanded to a byte per weight in a register, which drives the same weights for all widths.
//
// With `by_channel`, each lane multiplies only the values of its channel: row k gets the value in
// the same cycle as row 0, so the sum is that of value k times weight k. A multiplier has a single
// value, so even lanes use the upper half of the rows, and odd lanes the lower half; the other
// weights are zero.
module product_array #(
    parameter LANES = 16,
    parameter BUS_BYTES = 16,
    parameter PAIRED = 1
) (
    input logic clk,
    input logic load,
    input logic [15:0] load_beat,
    input logic [8*BUS_BYTES-1:0] load_data,
    input logic four_bits,  // of each weight in `load_data`; otherwise eight
    input logic two_bits,  // the same
    input logic by_channel,
    input logic swap,  // a cycle before the first values of the tile
    input logic [8*LANES-1:0] values,
    output logic [32*LANES-1:0] sums
);
  localparam CHAIN = LANES < 8 ? LANES : 8;
  localparam CHAINS = LANES / CHAIN;
  localparam TILE = LANES * LANES;
  localparam BEATS = TILE / BUS_BYTES;
  localparam SLOTS = TILE < 4 * BUS_BYTES ? TILE : 4 * BUS_BYTES;  // weights of a beat, at most
  localparam PAIRS = LANES / 2;
  localparam HALF = LANES / 2;
  localparam LATE = HALF % CHAIN;  // cycles from a row of the upper half to that of the lower

  logic [8*TILE-1:0] waiting, weights;
  logic [8*SLOTS-1:0] expanded;
  logic [BEATS-1:0] arrives;
  logic [CHAIN-1:0] swaps;
  logic [48*PAIRS*LANES-1:0] partial;
  logic [8*LANES*(LATE+1)-1:0] recent;

  delay_line #(
      .STAGES(CHAIN - 1)
  ) swap_line (
      .clk(clk),
      .rst(1'b0),
      .now(swap),
      .taps(swaps)
  );

  generate
    if (LATE == 0) begin : halves_at_once
      assign recent = values;
    end else begin : halves_in_turn
      delay_line #(
          .WIDTH(8 * LANES),
          .STAGES(LATE)
      ) recent_line (
          .clk(clk),
          .rst(1'b0),
          .now(values),
          .taps(recent)
      );
    end
    for (genvar s = 0; s < SLOTS; s++) begin : slot
      always_ff @(posedge clk) begin
        expanded[8*s+:8] <= load_data[8*(s%BUS_BYTES)+:8];
        if (four_bits) expanded[8*s+:8] <= 8'($signed(load_data[4*(s%(2*BUS_BYTES))+:4]));
        if (two_bits) expanded[8*s+:8] <= 8'($signed(load_data[2*s+:2]));
      end
    end
    for (genvar b = 0; b < BEATS; b++) begin : beat
      always_ff @(posedge clk)
        arrives[b] <= load && load_beat == 16'(two_bits ? b / 4 : four_bits ? b / 2 : b);
      for (genvar i = 0; i < BUS_BYTES; i++) begin : weight
        localparam AT = BUS_BYTES * b + i, ROW = AT / LANES;
        localparam TO = LANES * (ROW % CHAINS * CHAIN + ROW / CHAINS) + AT % LANES;
        always_ff @(posedge clk) if (arrives[b]) waiting[8*TO+:8] <= expanded[8*(AT%SLOTS)+:8];
      end
    end
    for (genvar k = 0; k < LANES; k++) begin : row
      localparam STEP = k % CHAIN;
      logic [8*(STEP+1)-1:0] delayed;
      if (STEP == 0) begin : at_once
        assign delayed = values[8*k+:8];
      end else begin : later
        delay_line #(
            .WIDTH(8),
            .STAGES(STEP)
        ) value_line (
            .clk(clk),
            .rst(1'b0),
            .now(values[8*k+:8]),
            .taps(delayed)
        );
      end
      always_ff @(posedge clk)
        if (swaps[STEP]) weights[8*LANES*k+:8*LANES] <= waiting[8*LANES*k+:8*LANES];
      for (genvar q = 0; q < PAIRS; q++) begin : column
        logic [47:0] above;
        logic [7:0] value;
        if (k % HALF < CHAIN) begin : shared
          localparam OWN = k < HALF ? 2 * q : LANES * LATE + 2 * q + 1;
          assign value = by_channel ? recent[8*OWN+:8] : delayed[8*STEP+:8];
        end else begin : dense
          assign value = delayed[8*STEP+:8];
        end
        if (STEP == 0) begin : top
          assign above = '0;
        end else begin : below
          assign above = partial[48*(PAIRS*(k-1)+q)+:48];
        end
        pair_product #(
            .PAIRED(PAIRED)
        ) multiply (
            .clk(clk),
            .value(value),
            .low(weights[8*(LANES*k+2*q)+:8]),
            .high(weights[8*(LANES*k+2*q+1)+:8]),
            .above(above),
            .sum(partial[48*(PAIRS*k+q)+:48])
        );
      end
    end
    for (genvar q = 0; q < PAIRS; q++) begin : ends
      logic signed [31:0] low, high;
      logic [47:0] both;
      logic negative;
      always_comb begin
        low = '0;
        high = '0;
        for (int h = 0; h < CHAINS; h++) begin
          both = partial[48*(PAIRS*(CHAIN*h+CHAIN-1)+q)+:48];
          if (PAIRED) begin
            // The minimum of 18 bits is the representation of eight times (-128)^2, because no sum
            // is that negative.
            negative = both[17] && both[16:0] != 0;
            low = low + 32'($signed({negative, both[17:0]}));
            high = high + 32'($signed(both[38:18])) + 32'(negative);
          end else begin
            negative = 0;
            low = low + 32'($signed(both[23:0]));
            high = high + 32'($signed(both[47:24]));
          end
        end
      end
      always_ff @(posedge clk) sums[64*q+:64] <= {high, low};
    end
  endgenerate
endmodule
