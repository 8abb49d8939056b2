// Read the nonzero weights of each filter in order, with the positions of their inputs.
//
// A word of the memory has an entry for each of FILTERS filters that are computed in parallel, and
// a bit that is set in the last word. An entry is {address, rotation, shift, weight}.
module coo_sequencer #(
    parameter ENTRIES = 1,
    parameter FILTERS = 1,
    parameter OFFSET_BITS = 1,
    parameter ROTATION_BITS = 1,
    parameter SHIFT_BITS = 1,
    parameter WEIGHT_BITS = 8,
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
  localparam ENTRY = OFFSET_BITS + ROTATION_BITS + SHIFT_BITS + WEIGHT_BITS;
  localparam COUNT_BITS = $clog2(ENTRIES + 1);

  (* ram_style = "block" *)
  logic [FILTERS*ENTRY:0] memory[0:ENTRIES-1];
  logic [FILTERS*ENTRY:0] fetch, entry;
  logic [COUNT_BITS-1:0] count;  // of the entry to fetch
  logic running, fetched, placed, take, advance;

  generate
    if (WEIGHTS != "") initial $readmemh(WEIGHTS, memory);
  endgenerate

  assign last = entry[FILTERS*ENTRY];
  assign valid = placed && (!last || free);
  assign advance = valid && next;
  assign take = !placed || advance;
  assign group_ends = advance && !fetched && count == COUNT_BITS'(ENTRIES);

  always_comb begin
    for (int f = 0; f < FILTERS; f++) begin
      {offset[f*OFFSET_BITS+:OFFSET_BITS], rotation[f*ROTATION_BITS+:ROTATION_BITS],
       shift[f*SHIFT_BITS+:SHIFT_BITS], weight[f*WEIGHT_BITS+:WEIGHT_BITS]} = entry[f*ENTRY+:ENTRY];
    end
  end

  always_ff @(posedge clk) begin
    if (!fetched || take) fetch <= memory[count];
    if (take) entry <= fetch;
  end

  always_ff @(posedge clk) begin
    if (take) placed <= fetched;
    if (!running) begin
      running <= go;
    end else if (group_ends) begin
      running <= 0;
      count <= 0;
    end else if (!fetched || take) begin
      fetched <= count != COUNT_BITS'(ENTRIES);
      if (count != COUNT_BITS'(ENTRIES)) count <= count + 1;
    end
    if (advance) first <= last;
    if (rst) begin
      running <= 0;
      fetched <= 0;
      placed <= 0;
      count <= 0;
      first <= 1;
    end
  end
endmodule
