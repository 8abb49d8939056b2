// Read the nonzero weights of each filter in order, with the distance to the previous weight.
//
// As coo_sequencer, but an entry is {delta, weight}. Positions of a filter are in the order of
// taps, then channels. A delta is at most CHANNELS, so it passes the end of at most a single tap.
// The table has {address, rotation, shift} for each tap.
module delta_sequencer #(
    parameter ENTRIES = 1,
    parameter FILTERS = 1,
    parameter TAPS = 1,
    parameter CHANNELS = 1,
    parameter PHASES = 1,
    parameter DELTA_BITS = 1,
    parameter OFFSET_BITS = 1,
    parameter ROTATION_BITS = 1,
    parameter SHIFT_BITS = 1,
    parameter WEIGHT_BITS = 8,
    parameter [TAPS*(OFFSET_BITS+ROTATION_BITS+SHIFT_BITS)-1:0] TAP_TABLE = 0,
    parameter WEIGHTS = ""
) (
    input logic clk,
    input logic rst,
    input logic go,  // the rows of the next group are complete
    input logic free,  // the sums of the previous filters have left
    input logic next,  // this entry is no longer needed
    output logic valid,
    output logic first,
    output logic last,
    output logic group_ends,
    output logic [FILTERS*OFFSET_BITS-1:0] offset,
    output logic [FILTERS*ROTATION_BITS-1:0] rotation,
    output logic [FILTERS*SHIFT_BITS-1:0] shift,
    output logic [FILTERS*WEIGHT_BITS-1:0] weight
);
  localparam ENTRY = DELTA_BITS + WEIGHT_BITS;
  localparam COUNT_BITS = $clog2(ENTRIES + 1);
  localparam TAP_BITS = TAPS > 1 ? $clog2(TAPS) : 1;
  localparam CHANNEL_BITS = $clog2(2 * CHANNELS);
  localparam PLACE = OFFSET_BITS + ROTATION_BITS + SHIFT_BITS;

  (* ram_style = "block" *)
  logic [FILTERS*ENTRY:0] memory[0:ENTRIES-1];
  logic [FILTERS*ENTRY:0] fetch, entry;
  logic [COUNT_BITS-1:0] count;  // of the entry to fetch
  logic running, fetched, held, placed, fresh, move, take, advance;

  generate
    if (WEIGHTS != "") initial $readmemh(WEIGHTS, memory);
  endgenerate

  assign valid = placed && (!last || free);
  assign advance = valid && next;
  assign take = !placed || advance;
  assign move = !held || take;
  assign group_ends = advance && !held && !fetched && count == COUNT_BITS'(ENTRIES);

  always_ff @(posedge clk) begin
    if (!fetched || move) fetch <= memory[count];
    if (move) entry <= fetch;
  end

  generate
    for (genvar f = 0; f < FILTERS; f++) begin : filter
      logic [TAP_BITS-1:0] tap;
      logic [CHANNEL_BITS-1:0] channel, sum;
      logic [PLACE-1:0] place;
      assign sum = (fresh ? '0 : channel)
          + CHANNEL_BITS'(entry[f*ENTRY+WEIGHT_BITS+:DELTA_BITS]);
      assign place = TAP_TABLE[tap*PLACE+:PLACE];
      assign {rotation[f*ROTATION_BITS+:ROTATION_BITS], shift[f*SHIFT_BITS+:SHIFT_BITS]} =
          place[ROTATION_BITS+SHIFT_BITS-1:0];
      assign offset[f*OFFSET_BITS+:OFFSET_BITS] = place[PLACE-1-:OFFSET_BITS]
          + OFFSET_BITS'(channel * PHASES);
      always_ff @(posedge clk) begin
        if (take) begin
          tap <= (fresh ? '0 : tap) + TAP_BITS'(sum >= CHANNEL_BITS'(CHANNELS));
          channel <= sum >= CHANNEL_BITS'(CHANNELS) ? sum - CHANNEL_BITS'(CHANNELS) : sum;
          weight[f*WEIGHT_BITS+:WEIGHT_BITS] <= entry[f*ENTRY+:WEIGHT_BITS];
        end
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (take) begin
      placed <= held;
      last <= entry[FILTERS*ENTRY];
      if (held) fresh <= entry[FILTERS*ENTRY];
    end
    if (move) held <= fetched;
    if (!running) begin
      running <= go;
    end else if (group_ends) begin
      running <= 0;
      count <= 0;
    end else if (!fetched || move) begin
      fetched <= count != COUNT_BITS'(ENTRIES);
      if (count != COUNT_BITS'(ENTRIES)) count <= count + 1;
    end
    if (advance) first <= last;
    if (rst) begin
      running <= 0;
      fetched <= 0;
      held <= 0;
      placed <= 0;
      fresh <= 1;
      count <= 0;
      first <= 1;
    end
  end
endmodule
