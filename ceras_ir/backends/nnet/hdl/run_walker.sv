// Cut `runs` runs of `length` bytes, `pitch` bytes from one to the next in memory and one after
// the other from `place` in a buffer, into bursts that cross no multiple of BURST_BYTES.
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
  logic [ADDRESS_BITS-1:0] next_run;
  logic [31:0] runs_left, left, whole, step;
  logic [SIZE_BITS-1:0] room;
  logic ends;

  assign ready = !burst_valid;
  assign room = SIZE_BITS'(BURST_BYTES) - SIZE_BITS'(burst_address[SIZE_BITS-2:0]);
  assign ends = left <= 32'(room);
  assign burst_bytes = ends ? SIZE_BITS'(left) : room;
  assign burst_last = ends && runs_left == 1;

  always_ff @(posedge clk) begin
    if (start && ready) begin
      burst_valid <= 1;
      burst_address <= address;
      burst_place <= place;
      next_run <= address + ADDRESS_BITS'(pitch);
      runs_left <= runs;
      left <= length;
      whole <= length;
      step <= pitch;
    end else if (burst_valid && burst_ready) begin
      burst_valid <= !burst_last;
      burst_place <= burst_place + PLACE_BITS'(burst_bytes);
      burst_address <= burst_address + ADDRESS_BITS'(burst_bytes);
      left <= left - 32'(burst_bytes);
      if (ends) begin
        burst_address <= next_run;
        next_run <= next_run + ADDRESS_BITS'(step);
        runs_left <= runs_left - 1;
        left <= whole;
      end
    end
    if (rst) burst_valid <= 0;
  end
endmodule
