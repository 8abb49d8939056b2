// Iterate over the blocks of a result, in the order of rows and images. A block consists of
// complete rows or of a part of a row. The outputs are valid three cycles after a step or the
// start.
module block_walker #(
    parameter PIXELS = 256
) (
    input logic clk,
    input logic start,
    input logic step,
    input layer_registers::layer_t layer,
    output logic [8:0] block_rows,
    output logic [8:0] block_columns,
    output logic [9:0] pixels,
    output logic oversize,  // the block has more than PIXELS pixels
    output logic last_columns,  // the last block of the rows
    output logic last_rows,  // the last block of the image
    output logic last
);
  logic [15:0] row, column, image, rows_left, columns_left;
  logic rows_end, columns_end;
  logic [17:0] all_pixels;

  assign all_pixels = block_rows * 18'(block_columns);
  assign rows_end = rows_left <= 16'(layer.block_rows);
  assign columns_end = columns_left <= 16'(layer.block_columns);

  always_ff @(posedge clk) begin
    rows_left <= 16'(layer.rows) - row;
    columns_left <= 16'(layer.columns) - column;
    last_columns <= columns_end;
    last_rows <= columns_end && rows_end;
    last <= columns_end && rows_end && image + 1 == 16'(layer.images);
    block_rows <= rows_end ? 9'(rows_left) : 9'(layer.block_rows);
    block_columns <= columns_end ? 9'(columns_left) : 9'(layer.block_columns);
    pixels <= 10'(all_pixels);
    oversize <= all_pixels > 18'(PIXELS);
    if (step) begin
      column <= last_columns ? '0 : column + 16'(layer.block_columns);
      if (last_columns) row <= last_rows ? '0 : row + 16'(layer.block_rows);
      if (last_rows) image <= image + 1;
    end
    if (start) begin
      row <= 0;
      column <= 0;
      image <= 0;
    end
  end
endmodule
