// Divide `runs` runs of `length` bytes, which are `pitch` bytes apart in memory and contiguous from
// `place` in a buffer, into bursts that cross no multiple of BURST_BYTES.
module run_walker #(
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 18,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    output logic ready,
    input logic [ADDRESS_BITS-1:0] address,
    input logic [31:0] runs,
    input logic [31:0] length,
    input logic [31:0] pitch,
    input logic [PLACE_BITS-1:0] place,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    output logic [PLACE_BITS-1:0] burst_place,
    output logic burst_last
);
  localparam OFFSET_BITS = SIZE_BITS - 1;
  localparam COLUMNS = (ADDRESS_BITS + SIZE_BITS + PLACE_BITS + 1 + 7) / 8;

  logic [ADDRESS_BITS-1:0] at, run, next_run;
  logic [PLACE_BITS-1:0] to;
  logic [31:0] runs_left, left, whole, step;
  logic [SIZE_BITS-1:0] room, bytes;
  logic [SIZE_BITS:0] last_byte;  // from the start of the block
  logic active, ends, last, found, taken, found_last;
  logic [ADDRESS_BITS-1:0] found_address;
  logic [SIZE_BITS-1:0] found_bytes;
  logic [PLACE_BITS-1:0] found_place;
  logic [8*COLUMNS-1:0] burst;

  // The next bursts are prepared while a burst waits. All sums begin at registers; `left` and `whole`
  // are the bytes minus one.
  assign ready = !active;
  assign room = SIZE_BITS'(BURST_BYTES) - SIZE_BITS'(at[OFFSET_BITS-1:0]);
  assign last_byte = (SIZE_BITS + 1)'(left[SIZE_BITS-1:0]) + (SIZE_BITS + 1)'(at[OFFSET_BITS-1:0]);
  assign ends = left[31:SIZE_BITS] == 0 && last_byte[SIZE_BITS:OFFSET_BITS] == 0;
  assign bytes = ends ? SIZE_BITS'(left) + 1'b1 : room;
  assign last = ends && runs_left == 1;
  assign next_run = run + ADDRESS_BITS'(step);

  always_ff @(posedge clk) begin
    if (taken) found <= 0;
    if (start && ready) begin
      active <= 1;
      at <= address;
      to <= place;
      run <= address;
      runs_left <= runs;
      left <= length - 1;
      whole <= length - 1;
      step <= pitch;
    end else if (active && (!found || taken)) begin
      found <= 1;
      found_address <= at;
      found_bytes <= bytes;
      found_place <= to;
      found_last <= last;
      active <= !last;
      to <= ends ? to + PLACE_BITS'(left) + 1'b1 : to + PLACE_BITS'(room);
      at <= {at[ADDRESS_BITS-1:OFFSET_BITS] + 1'b1, OFFSET_BITS'(0)};
      left <= left - 32'(room);
      if (ends) begin
        at <= next_run;
        run <= next_run;
        runs_left <= runs_left - 1;
        left <= whole;
      end
    end
    if (rst) begin
      active <= 0;
      found <= 0;
    end
  end

  // Registers of a run do not depend on `burst_ready`.
  skid_buffer #(
      .COLUMNS(COLUMNS)
  ) skid (
      .clk(clk),
      .rst(rst),
      .in_valid(found),
      .in_ready(taken),
      .in_data((8 * COLUMNS)'({found_address, found_bytes, found_place, found_last})),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(burst_valid),
      .out_ready(burst_ready),
      .out_data(burst),
      .out_row(),
      .out_channel()
  );

  assign {burst_address, burst_bytes, burst_place, burst_last} =
      (ADDRESS_BITS + SIZE_BITS + PLACE_BITS + 1)'(burst);
endmodule
