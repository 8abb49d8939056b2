// Convert bytes of the input port to rows of a channel: a word per (row, channel), in this order. A
// word begins with a new beat. The additional bytes of the last beat are ignored.
//
// A packet is a frame. A shorter packet is completed with copies of an earlier word, and the excess
// of a longer packet is dropped, so each packet is a single frame of the output and the next frame
// is correct.
module stream_input #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter UNSIGNED = 0,  // a byte is larger than the column by half of the range
    parameter BIPOLAR = 0,  // a byte is 1, or -1 if the bit of the column is set
    parameter PORT_BYTES = 8,
    parameter BEATS = 1  // ceil(COLUMNS / PORT_BYTES)
) (
    input logic clk,
    input logic rst,
    input logic port_valid,
    output logic port_ready,
    input logic [8*PORT_BYTES-1:0] port_data,
    input logic port_last,  // with the last beat of a packet
    output logic [1:0] errors,  // since the reset, bit 0: a packet was too short, 1: too long
    output logic out_valid,
    input logic out_ready,
    output logic [BITS*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam FRAME_BEATS = ROWS * CHANNELS * BEATS;
  localparam POSITION_BITS = FRAME_BEATS < 2 ? 1 : $clog2(FRAME_BEATS);

  logic [8*PORT_BYTES*BEATS-1:0] word;
  logic [15:0] beat;
  logic [POSITION_BITS-1:0] position;  // of the next beat in the frame
  logic next, room, step, frame_ends, fills, drops;

  assign next = out_valid && out_ready;
  assign room = !out_valid || out_ready;
  assign port_ready = drops || (room && !fills);
  assign step = room && !drops && (fills || port_valid);
  assign frame_ends = position == POSITION_BITS'(FRAME_BEATS - 1);

  // The sign of -1 and 1 is the second bit.
  always_comb begin
    for (int x = 0; x < COLUMNS; x++)
    out_data[BITS*x+:BITS] = word[8*x+BIPOLAR+:BITS] ^ (BITS'(UNSIGNED) << (BITS - 1));
  end

  always_ff @(posedge clk) begin
    if (next) begin
      out_valid <= 0;
      out_channel <= out_channel == 16'(CHANNELS - 1) ? 0 : out_channel + 1;
      if (out_channel == 16'(CHANNELS - 1)) out_row <= out_row == 16'(ROWS - 1) ? 0 : out_row + 1;
    end
    if (drops && port_valid && port_last) drops <= 0;
    if (step) begin
      // Beats move down, so that the first beat ends at column 0.
      if (!fills) word <= (8 * PORT_BYTES * BEATS)'({port_data, word} >> (8 * PORT_BYTES));
      beat <= beat == 16'(BEATS - 1) ? 0 : beat + 1;
      position <= frame_ends ? '0 : position + 1;
      out_valid <= beat == 16'(BEATS - 1);
      fills <= !frame_ends && (fills || port_last);
      drops <= frame_ends && !fills && !port_last;
      if (!fills && port_last != frame_ends) errors[frame_ends] <= 1;
    end
    if (rst) begin
      out_valid <= 0;
      out_row <= 0;
      out_channel <= 0;
      beat <= 0;
      position <= 0;
      fills <= 0;
      drops <= 0;
      errors <= 0;
    end
  end
endmodule
