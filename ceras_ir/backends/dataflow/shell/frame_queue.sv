// Collect the frames of an output stream, and offer them as bursts to a memory port. All beats of an
// offered burst are in the queue, so a burst never waits for the circuit. A burst has beats of a single
// frame, and does not cross a multiple of its maximum size.
module frame_queue #(
    parameter ADDRESS_BITS = 40,
    parameter BUS_BYTES = 8,
    parameter BURST_BEATS = 16,
    parameter FRAME_BEATS = 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    input logic [ADDRESS_BITS-1:0] address,  // a multiple of BUS_BYTES
    input logic [31:0] limit,  // frames to accept since the start
    output logic [31:0] frames,  // offered and taken since the start
    output logic wrong_end,  // TLAST is not at the end of a frame
    input logic in_valid,
    output logic in_ready,
    input logic [8*BUS_BYTES-1:0] in_data,
    input logic in_last,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [7:0] burst_length,  // beats minus 1
    output logic beat_valid,
    input logic beat_ready,
    output logic [8*BUS_BYTES-1:0] beat_data
);
  localparam LANE = $clog2(BUS_BYTES);
  localparam PLACE = $clog2(BURST_BEATS);
  localparam DEPTH = 2 * BURST_BEATS;
  localparam POSITION = FRAME_BEATS < 2 ? 1 : $clog2(FRAME_BEATS);

  logic room, push, in_ends;
  logic [31:0] accepted;  // frames
  logic [POSITION-1:0] position;  // of the next accepted beat

  assign in_ready = room && accepted != limit;
  assign push = in_valid && in_ready;
  assign in_ends = position == POSITION'(FRAME_BEATS - 1);

  // The next burst.
  logic [ADDRESS_BITS-LANE-1:0] at;
  logic [POSITION:0] left;  // beats of the frame
  logic [PLACE:0] whole, burst;
  logic [PLACE+2:0] stored;  // beats in the queue that are part of no burst
  logic take, out_ends;

  assign whole = (PLACE + 1)'(BURST_BEATS) - (PLACE + 1)'(at[PLACE-1:0]);
  assign burst = 32'(left) < 32'(whole) ? (PLACE + 1)'(left) : whole;
  assign out_ends = 32'(left) == 32'(burst);
  assign burst_valid = stored >= (PLACE + 3)'(burst);
  assign burst_address = {at, LANE'(0)};
  assign burst_length = 8'(burst) - 8'd1;
  assign take = burst_valid && burst_ready;

  always_ff @(posedge clk) begin
    wrong_end <= push && in_last != in_ends;
    if (push) begin
      position <= in_ends ? '0 : position + 1;
      accepted <= accepted + 32'(in_ends);
    end
    if (take) begin
      at <= at + (ADDRESS_BITS - LANE)'(burst);
      left <= out_ends ? (POSITION + 1)'(FRAME_BEATS) : left - (POSITION + 1)'(burst);
      frames <= frames + 32'(out_ends);
    end
    stored <= stored + (PLACE + 3)'(push) - (take ? (PLACE + 3)'(burst) : '0);
    if (start) begin
      at <= address[ADDRESS_BITS-1:LANE];
      accepted <= 0;
      frames <= 0;
    end
    if (rst) begin
      wrong_end <= 0;
      position <= 0;
      accepted <= 0;
      frames <= 0;
      left <= (POSITION + 1)'(FRAME_BEATS);
      stored <= 0;
    end
  end

  stream_fifo #(
      .COLUMNS(BUS_BYTES),
      .DEPTH(DEPTH),
      .ADDRESS_BITS($clog2(DEPTH))
  ) queue (
      .clk(clk),
      .rst(rst),
      .in_valid(push),
      .in_ready(room),
      .in_data(in_data),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(beat_valid),
      .out_ready(beat_ready),
      .out_data(beat_data),
      .out_row(),
      .out_channel()
  );
endmodule
