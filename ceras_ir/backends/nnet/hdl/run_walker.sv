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
  logic [ADDRESS_BITS-1:0] at, next_run;
  logic [PLACE_BITS-1:0] to;
  logic [31:0] runs_left, left, whole, step;
  logic [SIZE_BITS-1:0] room, bytes;
  logic active, ends, last;

  // The next burst is prepared while a burst waits.
  assign ready = !active;
  assign room = SIZE_BITS'(BURST_BYTES) - SIZE_BITS'(at[SIZE_BITS-2:0]);
  assign ends = left <= 32'(room);
  assign bytes = ends ? SIZE_BITS'(left) : room;
  assign last = ends && runs_left == 1;

  always_ff @(posedge clk) begin
    if (burst_ready) burst_valid <= 0;
    if (start && ready) begin
      active <= 1;
      at <= address;
      to <= place;
      next_run <= address + ADDRESS_BITS'(pitch);
      runs_left <= runs;
      left <= length;
      whole <= length;
      step <= pitch;
    end else if (active && (!burst_valid || burst_ready)) begin
      burst_valid <= 1;
      burst_address <= at;
      burst_bytes <= bytes;
      burst_place <= to;
      burst_last <= last;
      active <= !last;
      to <= to + PLACE_BITS'(bytes);
      at <= at + ADDRESS_BITS'(bytes);
      left <= left - 32'(bytes);
      if (ends) begin
        at <= next_run;
        next_run <= next_run + ADDRESS_BITS'(step);
        runs_left <= runs_left - 1;
        left <= whole;
      end
    end
    if (rst) begin
      active <= 0;
      burst_valid <= 0;
    end
  end
endmodule
