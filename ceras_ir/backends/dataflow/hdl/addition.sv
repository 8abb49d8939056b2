// Add two streams: requantize(first * 2^FIRST_SHIFT +- second * 2^SECOND_SHIFT + CONSTANT).
// The first operand arrives later; a ring of rows stores the second.
module addition #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter CAPACITY = 2,
    parameter ADDRESS_BITS = 1,
    parameter SUM_BITS = 32,
    parameter FIRST_SHIFT = 0,
    parameter SECOND_SHIFT = 0,
    parameter FIRST_SIGN = 1,
    parameter SECOND_SIGN = 1,
    parameter CONSTANT = 0,
    parameter SHIFT = 0,
    parameter LOW = -128,
    parameter HIGH = 127,
    parameter TIES = 0
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [8*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    input logic second_valid,
    output logic second_ready,
    input logic [8*COLUMNS-1:0] second_data,
    input logic [15:0] second_row,
    input logic [15:0] second_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [8*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  localparam RING_BITS = $clog2(CAPACITY) + 1;

  logic [RING_BITS-1:0] written, freed, frame, row, started;
  logic [15:0] middle_row, middle_channel, last_row, last_channel;
  logic step, there, middle_valid, last_valid;
  logic [8*COLUMNS-1:0] middle_data, last_data, second, sums;

  row_ring #(
      .ROWS(ROWS),
      .CHANNELS(CHANNELS),
      .COLUMNS(COLUMNS),
      .CAPACITY(CAPACITY),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) ring (
      .clk(clk),
      .rst(rst),
      .in_valid(second_valid),
      .in_ready(second_ready),
      .in_data(second_data),
      .in_row(second_row),
      .in_channel(second_channel),
      .rows_written(written),
      .rows_freed(freed),
      .read(step),
      .read_row(row),
      .read_channel(in_channel),
      .read_data(second)
  );

  // Rows start in order, and wait with the first channel.
  assign row = frame + RING_BITS'(in_row);
  assign there = in_channel != 0 || written != started;
  assign step = !out_valid || out_ready;
  assign in_ready = there && step;

  generate
    for (genvar x = 0; x < COLUMNS; x++) begin : column
      logic signed [SUM_BITS-1:0] a, b;
      assign a = SUM_BITS'($signed(last_data[8*x+:8])) <<< FIRST_SHIFT;
      assign b = SUM_BITS'($signed(second[8*x+:8])) <<< SECOND_SHIFT;
      requantize #(
          .SUM_BITS(SUM_BITS),
          .SHIFT(SHIFT),
          .LOW(LOW),
          .HIGH(HIGH),
          .TIES(TIES)
      ) finish (
          .exact(SHIFT > 0),
          .sum((FIRST_SIGN < 0 ? -a : a) + (SECOND_SIGN < 0 ? -b : b) + SUM_BITS'(CONSTANT)),
          .result(sums[8*x+:8])
      );
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (in_valid && in_ready && in_channel == 0) started <= started + 1;
    if (in_valid && in_ready && in_channel == 16'(CHANNELS - 1)) begin
      freed <= row + 1;
      if (in_row == 16'(ROWS - 1)) frame <= row + 1;
    end
    if (step) begin
      middle_valid <= in_valid && there;
      middle_data <= in_data;
      middle_row <= in_row;
      middle_channel <= in_channel;
      last_valid <= middle_valid;
      last_data <= middle_data;
      last_row <= middle_row;
      last_channel <= middle_channel;
      out_valid <= last_valid;
      out_data <= sums;
      out_row <= last_row;
      out_channel <= last_channel;
    end
    if (rst) begin
      middle_valid <= 0;
      last_valid <= 0;
      out_valid <= 0;
      started <= 0;
      freed <= 0;
      frame <= 0;
    end
  end
endmodule
