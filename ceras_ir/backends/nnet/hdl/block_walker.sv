// The blocks of a result: whole rows, or parts of one; row after row, image after image. Pixels of
// a block follow one another.
module block_walker (
    input logic clk,
    input logic start,
    input logic step,
    input layer_registers::layer_t layer,
    output logic [8:0] block_rows,
    output logic [8:0] block_columns,
    output logic [9:0] pixels,
    output logic [31:0] first_pixel,
    output logic last_columns,  // its rows end with it
    output logic last_rows,  // and its image
    output logic last
);
  logic [15:0] row, column, image, rows_left, columns_left;

  assign rows_left = 16'(layer.rows) - row;
  assign columns_left = 16'(layer.columns) - column;
  assign last_columns = columns_left <= 16'(layer.block_columns);
  assign last_rows = last_columns && rows_left <= 16'(layer.block_rows);
  assign last = last_rows && image + 1 == 16'(layer.images);
  assign block_rows = rows_left < 16'(layer.block_rows) ? 9'(rows_left) : 9'(layer.block_rows);
  assign block_columns = last_columns ? 9'(columns_left) : 9'(layer.block_columns);
  assign pixels = 10'(block_rows * 18'(block_columns));

  always_ff @(posedge clk) begin
    if (step) begin
      first_pixel <= first_pixel + 32'(pixels);
      column <= last_columns ? '0 : column + 16'(layer.block_columns);
      if (last_columns) row <= last_rows ? '0 : row + 16'(layer.block_rows);
      if (last_rows) image <= image + 1;
    end
    if (start) begin
      row <= 0;
      column <= 0;
      image <= 0;
      first_pixel <= 0;
    end
  end
endmodule
