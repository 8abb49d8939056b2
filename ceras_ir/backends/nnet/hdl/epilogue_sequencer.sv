// Send the sums of a half through the epilogue, a pixel per cycle, and the results to a half of the
// output buffer, in the order of groups of outputs. Floats need four cycles per pixel; each cycle
// writes the results of a quarter of the lanes.
module epilogue_sequencer #(
    parameter LANES = 16,
    parameter PLACE_BITS = 16,
    parameter LATENCY = 12  // from reading the residual to the results
) (
    input logic clk,
    input logic rst,
    input logic start,
    output logic idle,
    input layer_registers::layer_t layer,
    input logic [1:0] full,
    input logic [1:0][9:0] pixels,
    input logic [1:0][31:0] group,
    input logic [1:0][31:0] group_place,
    input logic [1:0][31:0] group_bytes,  // or floats
    input logic [1:0] group_ends,
    output logic [1:0] half_free,
    input logic [1:0] header_ready,
    output logic [1:0] header_taken,
    output logic header_bank,  // with the sums
    output logic table_bank,  // the same, with the looked-up values
    input logic [1:0] residual_there,
    output logic [1:0] residual_taken,
    output logic [PLACE_BITS-1:0] residual_address,
    output logic [7:0] sum_address,  // two cycles later
    output logic sum_half,  // with the sums
    output logic [LANES-1:0] write,  // LATENCY cycles later
    output logic [PLACE_BITS-1:0] write_address,
    output logic [1:0] write_quarter,  // a cycle before them
    // The results to be written.
    output logic [1:0] result_full,
    input logic [1:0] result_written,
    output logic [1:0][9:0] result_pixels,
    output logic [1:0][31:0] result_group,
    output logic [1:0][31:0] result_bytes
);
  localparam DEPTH = LATENCY + 2;
  localparam LANE_BITS = $clog2(LANES);

  logic running, half, bank, residual_half, result_half, ends, group_end, go;
  logic [1:0] claimed, continues;
  logic [9:0] pixel, count;
  logic [PLACE_BITS-2:0] place, step, result_place;
  logic [1:0] quarter;
  logic floats, last_quarter;
  logic signed [LANE_BITS+3:0] pixel_bytes, bytes_left;
  logic [LANES-1:0] mask;
  logic [31:0] outputs_left;
  logic signed [LANE_BITS+3:0] go_bytes;

  // Delayed signals; the index is the delay in cycles.
  logic [DEPTH:0] ended, ended_group, halves, banks, residual_halves, result_halves, issued;
  logic [(PLACE_BITS-1)*(LATENCY+1)-1:0] places;
  logic [LANES*(LATENCY+1)-1:0] masks;
  logic [8*3-1:0] addresses;
  logic [2*(LATENCY+1)-1:0] quarters;

  assign go = !running && full[half] && !(|(half_free & (2'b01 << half))) && header_ready[bank]
      && (!layer.mode[layer_registers::HAS_RESIDUAL] || residual_there[residual_half])
      && (continues[half] || !claimed[result_half]);
  assign floats = layer.mode[layer_registers::MAKES_FLOATS];
  assign last_quarter = !floats || quarter == 3;
  assign ends = running && last_quarter && pixel + 1 == count;
  assign outputs_left = group_bytes[half] - group_place[half];
  assign go_bytes = (LANE_BITS + 4)'(
      (outputs_left < LANES ? outputs_left : LANES) << (floats ? 2 : 0));
  assign residual_address = {residual_half, place};
  assign result_place = floats
      ? {place[PLACE_BITS-4:0], 2'b0} + (PLACE_BITS - 1)'({quarter, LANE_BITS'(0)}) : place;

  always_comb
    for (int i = 0; i < LANES; i++) mask[i] = $signed((LANE_BITS + 4)'(i)) < bytes_left;

  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(1)
  ) issued_line (
      .clk(clk),
      .rst(rst),
      .now(running),
      .taps(issued)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(1)
  ) ended_line (
      .clk(clk),
      .rst(rst),
      .now(ends),
      .taps(ended)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(1)
  ) ended_group_line (
      .clk(clk),
      .rst(rst),
      .now(ends && group_end),
      .taps(ended_group)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(0)
  ) halves_line (
      .clk(clk),
      .rst(rst),
      .now(half),
      .taps(halves)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(0)
  ) banks_line (
      .clk(clk),
      .rst(rst),
      .now(bank),
      .taps(banks)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(0)
  ) residual_halves_line (
      .clk(clk),
      .rst(rst),
      .now(residual_half),
      .taps(residual_halves)
  );
  delay_line #(
      .WIDTH(1),
      .STAGES(DEPTH),
      .RESET(0)
  ) result_halves_line (
      .clk(clk),
      .rst(rst),
      .now(result_half),
      .taps(result_halves)
  );
  delay_line #(
      .WIDTH(PLACE_BITS - 1),
      .STAGES(LATENCY),
      .RESET(0)
  ) places_line (
      .clk(clk),
      .rst(rst),
      .now(result_place),
      .taps(places)
  );
  delay_line #(
      .WIDTH(LANES),
      .STAGES(LATENCY),
      .RESET(0)
  ) masks_line (
      .clk(clk),
      .rst(rst),
      .now(mask),
      .taps(masks)
  );
  delay_line #(
      .WIDTH(2),
      .STAGES(LATENCY),
      .RESET(0)
  ) quarters_line (
      .clk(clk),
      .rst(rst),
      .now(quarter),
      .taps(quarters)
  );
  delay_line #(
      .WIDTH(8),
      .STAGES(2),
      .RESET(0)
  ) addresses_line (
      .clk(clk),
      .rst(rst),
      .now(pixel[7:0]),
      .taps(addresses)
  );

  assign sum_address = addresses[16+:8];
  assign sum_half = halves[4];
  assign header_bank = banks[4];
  assign table_bank = banks[LATENCY-2];
  assign write = masks[LANES*LATENCY+:LANES] & {LANES{issued[LATENCY]}};
  assign write_address = {result_halves[LATENCY], places[(PLACE_BITS-1)*LATENCY+:PLACE_BITS-1]};
  assign write_quarter = quarters[2*(LATENCY-1)+:2];
  assign half_free = ended[4] ? 2'b01 << halves[4] : 2'b00;
  // The number of the table is used last.
  assign header_taken = ended[LATENCY-2] ? 2'b01 << banks[LATENCY-2] : 2'b00;
  assign residual_taken = ended_group[4] ? 2'b01 << residual_halves[4] : 2'b00;
  assign idle = !running && issued[DEPTH:1] == 0 && claimed == 0;

  always_ff @(posedge clk) begin
    // The place is known long before the half is full.
    for (int h = 0; h < 2; h++) continues[h] <= group_place[h] != 0;
    claimed <= claimed & ~result_written;
    result_full <= result_full & ~result_written;
    // The writer reads the first result six cycles later, after the last one is written.
    if (ended_group[LATENCY-2]) result_full[result_halves[LATENCY-2]] <= 1;

    if (running) begin
      quarter <= quarter + 1;
      bytes_left <= bytes_left - (LANE_BITS + 4)'(LANES);
      if (last_quarter) begin
        quarter <= 0;
        bytes_left <= pixel_bytes;
        pixel <= pixel + 1;
        place <= place + step;
      end
      if (ends) begin
        running <= 0;
        half <= !half;
        bank <= !bank;
        if (group_end) begin
          residual_half <= !residual_half;
          result_half <= !result_half;
        end
      end
    end
    if (go) begin
      running <= 1;
      pixel <= 0;
      count <= pixels[half];
      group_end <= group_ends[half];
      place <= (PLACE_BITS - 1)'(group_place[half]);
      step <= (PLACE_BITS - 1)'(group_bytes[half]);
      quarter <= 0;
      pixel_bytes <= go_bytes;
      bytes_left <= go_bytes;
      claimed[result_half] <= 1;
      result_pixels[result_half] <= pixels[half];
      result_group[result_half] <= group[half];
      result_bytes[result_half] <= group_bytes[half];
    end
    if (start) begin
      half <= 0;
      bank <= 0;
      residual_half <= 0;
      result_half <= 0;
    end
    if (rst) begin
      running <= 0;
      claimed <= 0;
      result_full <= 0;
    end
  end
endmodule
