// Join the channels of two streams. A ring of rows stores the second; its channels are sent before
// the first word of a row if SECOND_IS_LOWER, otherwise after the last.
module concatenation #(
    parameter ROWS = 1,
    parameter FIRST_CHANNELS = 1,
    parameter SECOND_CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter SECOND_IS_LOWER = 0,
    parameter CAPACITY = 2,
    parameter ADDRESS_BITS = 1
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

  logic [RING_BITS-1:0] written, freed;
  logic [15:0] row, ended_row, channel, middle_row, middle_channel;
  logic step, due, sent, take, read, last;
  logic middle_valid, middle_from_second, from_second;
  logic [8*COLUMNS-1:0] middle_data, held, second;

  row_ring #(
      .ROWS(ROWS),
      .CHANNELS(SECOND_CHANNELS),
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
      .read_row(freed),
      .read_channel(channel),
      .read_data(second)
  );

  // `due`: the channels of the second stream are next. `sent`: they precede the current row.
  assign row = SECOND_IS_LOWER ? in_row : ended_row;
  assign step = !out_valid || out_ready;
  assign read = step && (SECOND_IS_LOWER ? in_valid && in_channel == 0 && !sent : due)
      && written != freed;
  assign last = channel == 16'(SECOND_CHANNELS - 1);
  assign in_ready = step && (SECOND_IS_LOWER ? in_channel != 0 || sent : !due);
  assign take = in_valid && in_ready;
  assign out_data = from_second ? second : held;

  always_ff @(posedge clk) begin
    if (take) begin
      sent <= 0;
      ended_row <= in_row;
      due <= in_channel == 16'(FIRST_CHANNELS - 1);
    end
    if (read) begin
      channel <= last ? 0 : channel + 1;
      if (last) begin
        sent <= 1;
        due <= 0;
        freed <= freed + 1;
      end
    end
    if (step) begin
      middle_valid <= take || read;
      middle_from_second <= read;
      middle_data <= in_data;
      middle_row <= read ? row : in_row;
      middle_channel <= read ? channel + 16'(SECOND_IS_LOWER ? 0 : FIRST_CHANNELS)
          : in_channel + 16'(SECOND_IS_LOWER ? SECOND_CHANNELS : 0);
      out_valid <= middle_valid;
      from_second <= middle_from_second;
      held <= middle_data;
      out_row <= middle_row;
      out_channel <= middle_channel;
    end
    if (rst) begin
      middle_valid <= 0;
      out_valid <= 0;
      channel <= 0;
      sent <= 0;
      due <= 0;
      freed <= 0;
    end
  end
endmodule
