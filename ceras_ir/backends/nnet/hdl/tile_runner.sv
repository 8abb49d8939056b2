// Read the values of a tile for all pixels of the block, a pixel per cycle, without a pause between
// tiles if the next tile is ready. With `by_channel`, the array also needs the values between the
// pixels and some values after them.
module tile_runner #(
    parameter LANES = 16,
    parameter PLACE_BITS = 18,
    parameter LEAST = 6  // cycles of a tile: sums must be written before they are read again
) (
    input logic clk,
    input logic rst,
    input logic start,
    input layer_registers::layer_t layer,
    output logic idle,
    input logic tile_valid,
    input logic weights_ready,
    output logic tile_taken,
    input logic [PLACE_BITS-1:0] ring,
    input logic signed [23:0] y,
    input logic signed [23:0] position,
    input logic [8:0] block_rows,
    input logic [8:0] block_columns,
    input logic first,
    input logic last,
    input logic half,
    input logic [31:0] rows_free,
    output logic [31:0] rows_freed,
    // For each value that is read.
    output logic read,
    output logic read_begins,  // with the first value of a tile
    output logic read_counts,  // the value belongs to a pixel
    output logic [PLACE_BITS-1:0] read_address,
    output logic signed [23:0] read_position,
    output logic read_outside,  // the row is not in the image
    output logic [7:0] read_pixel,
    output logic read_half,
    output logic read_first,
    output logic read_ends  // with the last pixel of the last tile
);
  logic [PLACE_BITS:0] row_ring, next_ring;
  logic signed [23:0] row_y, row_start;
  logic [8:0] rows_left, columns_left, columns_all;
  logic [31:0] frees;
  logic is_last, at_pixel, last_column, last_row, last_pixel, row_ends, tile_ends, behind;
  logic [2:0] left_behind;
  logic [3:0] phase;
  logic [7:0] same;  // repetitions of this position that are read
  logic [3:0] age;

  assign next_ring = row_ring + (PLACE_BITS + 1)'(layer.ring_row_step);
  assign read_counts = !behind && at_pixel;
  assign last_pixel = read_counts && last_column;
  assign row_ends = behind ? left_behind == 1 : last_pixel && layer.reads_after == 0;
  assign tile_ends = row_ends && last_row;
  assign tile_taken = tile_valid && weights_ready && (!read || tile_ends) && age >= 4'(LEAST);
  assign read_address = PLACE_BITS'(row_ring) + PLACE_BITS'(read_position);
  assign read_outside = row_y < 0 || row_y >= $signed(24'(layer.height));
  assign read_ends = last_pixel && last_row && is_last;
  assign idle = !read;

  always_ff @(posedge clk) begin
    if (age != 15) age <= age + 1;
    read_begins <= 0;
    if (read) begin
      if (read_counts) begin
        read_pixel <= read_pixel + 1;
        columns_left <= columns_left - 1;
        last_column <= columns_left == 2;
      end
      phase <= phase + 1 == 4'(layer.reads_apart) ? '0 : phase + 1;
      at_pixel <= phase + 1 == 4'(layer.reads_apart);
      left_behind <= left_behind - 1;
      if (last_pixel) begin
        behind <= 1;
        left_behind <= 3'(layer.reads_after);
      end
      same <= same + 1;
      if (same == layer.repeats) begin
        same <= 0;
        read_position <= read_position + 24'(layer.column_step);
      end
      if (row_ends) begin
        columns_left <= columns_all;
        last_column <= columns_all == 1;
        phase <= 0;
        at_pixel <= 1;
        behind <= 0;
        same <= 0;
        read_position <= row_start;
        rows_left <= rows_left - 1;
        last_row <= rows_left == 2;
        row_y <= row_y + 24'(layer.stride_y);
        row_ring <= next_ring >= (PLACE_BITS + 1)'(layer.ring_bytes)
            ? next_ring - (PLACE_BITS + 1)'(layer.ring_bytes) : next_ring;
      end
      if (tile_ends) begin
        read <= 0;
        rows_freed <= frees;
      end
    end
    if (tile_taken) begin
      read <= 1;
      read_begins <= 1;
      age <= 1;
      read_pixel <= 0;
      phase <= 0;
      at_pixel <= 1;
      behind <= 0;
      same <= 0;
      read_position <= position;
      read_half <= half;
      read_first <= first;
      row_start <= position;
      row_y <= y;
      row_ring <= (PLACE_BITS + 1)'(ring);
      rows_left <= block_rows;
      last_row <= block_rows == 1;
      columns_left <= block_columns;
      last_column <= block_columns == 1;
      columns_all <= block_columns;
      is_last <= last;
      frees <= rows_free;
    end
    if (start) rows_freed <= 0;
    if (rst) begin
      read <= 0;
      age <= 15;
    end
  end
endmodule
