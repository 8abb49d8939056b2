// Order the words of a stream by rows. The rows of the input can form batches.
module row_order #(
    parameter ROWS = 1,
    parameter CHANNELS = 1,
    parameter COLUMNS = 1,
    parameter BITS = 8,  // of a column
    parameter CAPACITY = 2,
    parameter ADDRESS_BITS = 1
) (
    input logic clk,
    input logic rst,
    input logic in_valid,
    output logic in_ready,
    input logic [BITS*COLUMNS-1:0] in_data,
    input logic [15:0] in_row,
    input logic [15:0] in_channel,
    output logic out_valid,
    input logic out_ready,
    output logic [BITS*COLUMNS-1:0] out_data,
    output logic [15:0] out_row,
    output logic [15:0] out_channel
);
  logic [$clog2(CAPACITY):0] written, total;
  logic [15:0] row, channel, middle_row, middle_channel;
  logic read, step, middle_valid;

  row_ring #(
      .ROWS(ROWS),
      .CHANNELS(CHANNELS),
      .COLUMNS(COLUMNS),
      .BITS(BITS),
      .CAPACITY(CAPACITY),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) ring (
      .clk(clk),
      .rst(rst),
      .in_valid(in_valid),
      .in_ready(in_ready),
      .in_data(in_data),
      .in_row(in_row),
      .in_channel(in_channel),
      .rows_written(written),
      .rows_freed(total),
      .read(step),
      .read_row(total),
      .read_channel(channel),
      .read_data(out_data)
  );

  assign step = !out_valid || out_ready;
  assign read = written != total && step;

  always_ff @(posedge clk) begin
    if (step) begin
      middle_valid <= read;
      middle_row <= row;
      middle_channel <= channel;
      out_valid <= middle_valid;
      out_row <= middle_row;
      out_channel <= middle_channel;
    end
    if (read) begin
      channel <= channel + 1;
      if (channel == 16'(CHANNELS - 1)) begin
        channel <= 0;
        total <= total + 1;
        row <= row == 16'(ROWS - 1) ? 0 : row + 1;
      end
    end
    if (rst) begin
      middle_valid <= 0;
      out_valid <= 0;
      channel <= 0;
      total <= 0;
      row <= 0;
    end
  end
endmodule
