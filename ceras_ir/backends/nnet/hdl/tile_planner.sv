// Plan the next tile for the array: for each block of pixels, all tiles of outputs; for each tile
// of outputs, all tiles of products. A block waits for rows, and a tile of outputs for a half of
// the sums. A tile is planned at most every second cycle, so that the comparisons with the limits
// of the counters are registers.
module tile_planner #(
    parameter LANES = 16,
    parameter PIXELS = 256,
    parameter PLACE_BITS = 18
) (
    input logic clk,
    input logic rst,
    input logic start,
    output logic idle,
    input layer_registers::layer_t layer,
    input logic [31:0] rows_there,
    output logic oversize,  // the block has more than PIXELS pixels
    // The tile.
    output logic tile_valid,
    input logic tile_taken,
    output logic [PLACE_BITS-1:0] ring,  // of the first row
    output logic signed [23:0] y,
    output logic signed [23:0] position,  // of the first value in the row
    output logic [8:0] block_rows,
    output logic [8:0] block_columns,
    output logic first,
    output logic last,
    output logic half,
    output logic [31:0] rows_free,  // after the tile has been read
    // The contents of a half of the sums.
    input logic [1:0] half_free,
    output logic [1:0] claimed,
    output logic [1:0][9:0] pixels,
    output logic [1:0][31:0] group,  // first output of the group
    output logic [1:0][31:0] group_place,  // of the tile in the group
    output logic [1:0][31:0] group_bytes,
    output logic [1:0] group_ends
);
  localparam SETTLED = 6;

  typedef enum logic [2:0] {
    IDLE,
    SETUP,
    ROWS,
    TILES,
    ADVANCE
  } state_t;
  state_t state;

  logic by_channel, present, step, block_oversize, last_columns, last_rows, last_block, next_half, begins;
  logic last_run, last_tap, last_row, last_output;
  logic [8:0] rows_here, columns_here;
  logic [9:0] pixels_here;
  logic [2:0] settled;
  logic run_ends, tap_ends, row_ends, output_ends;
  logic half_claimed, ends_outputs, group_ended, moves_down;
  logic [31:0] needed, image_row, group_first, group_at, group_size, output_left, rows_above;
  logic signed [31:0] windows, window_end, reach;
  logic signed [23:0] y_block, y_tap, at_block, at_output, at_tap, at;
  logic [15:0] run_tile, tap, kernel_row, output_tile;
  logic [PLACE_BITS:0] ring_image, ring_block, ring_tap;

  function automatic logic [PLACE_BITS:0] around(input logic [PLACE_BITS:0] place,
                                                 input logic [31:0] distance);
    logic [PLACE_BITS:0] sum, less;
    sum = place + (PLACE_BITS + 1)'(distance);
    less = sum - (PLACE_BITS + 1)'(layer.ring_bytes);
    around = sum >= (PLACE_BITS + 1)'(layer.ring_bytes) ? less : sum;
  endfunction

  block_walker #(
      .PIXELS(PIXELS)
  ) blocks (
      .clk(clk),
      .start(start),
      .step(step),
      .layer(layer),
      .block_rows(rows_here),
      .block_columns(columns_here),
      .pixels(pixels_here),
      .oversize(block_oversize),
      .last_columns(last_columns),
      .last_rows(last_rows),
      .last(last_block)
  );

  assign idle = state == IDLE && !tile_valid;
  assign oversize = state == ROWS && block_oversize;
  assign by_channel = layer.mode[layer_registers::BY_CHANNEL];
  assign run_ends = run_tile + 1 == 16'(layer.run_tiles);
  assign tap_ends = run_ends && tap + 1 == 16'(layer.row_taps);
  assign row_ends = tap_ends && kernel_row + 1 == 16'(layer.kernel_rows);
  assign output_ends = output_tile + 1 == 16'(layer.output_tiles);
  assign present = state == TILES && !tile_valid && (!begins || !half_claimed);
  assign step = state == ADVANCE && !last_block;
  assign output_left = layer.outputs - group_first;

  always_ff @(posedge clk) begin
    claimed <= claimed & ~half_free;
    if (tile_taken) tile_valid <= 0;
    half_claimed <= claimed[next_half] && !half_free[next_half];
    last_run <= run_ends;
    last_tap <= tap_ends;
    last_row <= row_ends;
    last_output <= row_ends && output_ends;
    ends_outputs <= output_ends;
    group_ended <= group_at + LANES == layer.group_tiles * LANES;
    group_size <= output_left < layer.group_tiles * LANES ? output_left : layer.group_tiles * LANES;
    moves_down <= y_block + $signed(24'(layer.block_y_step)) > 0;
    rows_above <= image_row + 32'(y_block) + layer.block_y_step;
    // In sequence, while the outputs of the block walker settle.
    reach <= 32'(y_block) + layer.extent - layer.stride_y;
    windows <= 32'(rows_here) * 16'(layer.stride_y);
    window_end <= reach + windows;
    needed <= image_row
        + (window_end > $signed(layer.height) ? layer.height : 32'(window_end));
    case (state)
      SETUP: begin
        settled <= settled + 1;
        if (settled == 3'(SETTLED)) state <= ROWS;
      end
      // `needed` can precede the first row if a window is outside.
      ROWS: if ($signed(rows_there - needed) >= 0) state <= TILES;
      ADVANCE: begin
        state <= last_block ? IDLE : SETUP;
        settled <= 0;
        at_block <= last_columns ? 24'(layer.first_position)
            : at_block + 24'(layer.block_position_step);
        if (last_rows) begin
          ring_image <= around(ring_image, layer.ring_image_step);
          ring_block <= around(ring_image, layer.ring_image_step);
          y_block <= 24'(layer.first_y);
          image_row <= image_row + layer.height;
        end else if (last_columns) begin
          ring_block <= around(ring_block, layer.ring_block_step);
          y_block <= y_block + 24'(layer.block_y_step);
        end
      end
      default: ;
    endcase
    if (state == SETUP) begin
      at_output <= at_block;
      at_tap <= at_block;
      at <= at_block;
      ring_tap <= ring_block;
      y_tap <= y_block;
      output_tile <= 0;
      group_first <= 0;
      group_at <= 0;
    end
    if (present) begin
      tile_valid <= 1;
      ring <= PLACE_BITS'(ring_tap);
      y <= y_tap;
      position <= at;
      block_rows <= rows_here;
      block_columns <= columns_here;
      first <= begins;
      last <= last_row;
      half <= next_half;
      if (begins) begin
        claimed[next_half] <= 1;
        pixels[next_half] <= pixels_here;
        group[next_half] <= group_first;
        group_place[next_half] <= group_at;
        group_bytes[next_half] <= group_size;
        group_ends[next_half] <= ends_outputs || group_ended;
      end
      if (last_output) begin
        if (last_rows) rows_free <= image_row + layer.height;
        else if (last_columns && moves_down) rows_free <= rows_above;
      end
      begins <= last_row;
      run_tile <= run_tile + 1;
      at <= at + 24'(LANES);
      if (last_run) begin
        run_tile <= 0;
        tap <= tap + 1;
        at_tap <= at_tap + 24'(layer.tap_step);
        at <= at_tap + 24'(layer.tap_step);
      end
      if (last_tap) begin
        tap <= 0;
        kernel_row <= kernel_row + 1;
        at_tap <= at_output;
        at <= at_output;
        ring_tap <= around(ring_tap, layer.ring_tap_step);
        y_tap <= y_tap + 24'(layer.dilation_y);
      end
      if (last_row) begin
        kernel_row <= 0;
        output_tile <= output_tile + 1;
        next_half <= !next_half;
        ring_tap <= ring_block;
        y_tap <= y_block;
        if (by_channel) begin
          at_output <= at_output + 24'(LANES);
          at_tap <= at_output + 24'(LANES);
          at <= at_output + 24'(LANES);
        end
        group_at <= group_at + LANES;
        if (group_ended) begin
          group_at <= 0;
          group_first <= group_first + layer.group_tiles * LANES;
        end
      end
      if (last_output) state <= ADVANCE;
    end
    if (start) begin
      state <= SETUP;
      settled <= 0;
      y_block <= 24'(layer.first_y);
      at_block <= 24'(layer.first_position);
      ring_image <= (PLACE_BITS + 1)'(layer.ring_start);
      ring_block <= (PLACE_BITS + 1)'(layer.ring_start);
      image_row <= 0;
      run_tile <= 0;
      tap <= 0;
      kernel_row <= 0;
      begins <= 1;
      next_half <= 0;
      claimed <= 0;
      rows_free <= 0;
    end
    if (rst) begin
      state <= IDLE;
      tile_valid <= 0;
    end
  end
endmodule
