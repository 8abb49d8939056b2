// Load the stream of constants: function tables, if any, in words of 64 bits. Then, for each block
// of pixels and each tile of outputs: eight bytes per output (constant, shift, table number), and
// the tiles of weights, of 8, 4 or 2 bits. A tile has a beat or more.
module stream_loader #(
    parameter LANES = 16,
    parameter BUS_BYTES = 16,
    parameter ADDRESS_BITS = 40,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    input layer_registers::layer_t layer,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    input logic beat_valid,
    input logic [8*BUS_BYTES-1:0] beat_data,
    output logic [15:0] beat,
    output logic [8*BUS_BYTES-1:0] data,
    output logic load_table,
    output logic [15:0] table_place,
    output logic [63:0] table_data,
    output logic load_header,
    output logic header_bank,
    output logic load_tile,
    output logic tile_ready,
    input logic tile_taken,
    output logic [1:0] header_ready,
    input logic [1:0] header_taken
);
  localparam DEPTH = 128;
  localparam FIFO_BITS = $clog2(DEPTH);
  localparam LANE = $clog2(BUS_BYTES);
  localparam CHAIN = LANES < 8 ? LANES : 8;
  localparam BURST_BEATS = BURST_BYTES / BUS_BYTES;
  localparam TABLE_PARTS = BUS_BYTES / 8;
  localparam HEADER_BEATS = 8 * LANES / BUS_BYTES;
  // The beats of a tile with weights of 8, 4 and 2 bits.
  localparam TILE_BEATS = LANES * LANES / BUS_BYTES;
  localparam FOUR_BEATS = TILE_BEATS < 2 ? 1 : TILE_BEATS / 2;
  localparam TWO_BEATS = TILE_BEATS < 4 ? 1 : TILE_BEATS / 4;
  // A row of a chain accepts weights a cycle after the row above. If a beat has several rows of a
  // chain, the first beat waits for the last of them.
  localparam WAIT = TILE_BEATS < CHAIN ? CHAIN - TILE_BEATS - 1 : 0;
  localparam FOUR_WAIT = FOUR_BEATS < CHAIN ? CHAIN - FOUR_BEATS - 1 : 0;
  localparam TWO_WAIT = TWO_BEATS < CHAIN ? CHAIN - TWO_BEATS - 1 : 0;

  logic walker_valid, walker_ready, room, pop, valid, last_beat;
  logic has_tables, tables_first, blocks_next, part, last_part;
  logic [FIFO_BITS:0] reserved;

  assign tables_first = start && has_tables;

  run_walker #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(1),
      .BURST_BYTES(BURST_BYTES)
  ) walker (
      .clk(clk),
      .rst(rst),
      .start(start || blocks_next),
      .ready(walker_ready),
      .address(ADDRESS_BITS'(layer.stream_address)
          + (tables_first ? '0 : ADDRESS_BITS'(layer.table_bytes[12:0]))),
      .runs(tables_first ? 32'd1 : layer.blocks),
      .length(tables_first ? layer.table_bytes : layer.stream_bytes),
      .pitch(32'b0),
      .place(1'b0),
      .burst_valid(walker_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(),
      .burst_last()
  );

  assign burst_valid = walker_valid && room;

  stream_fifo #(
      .COLUMNS(BUS_BYTES),
      .DEPTH(DEPTH),
      .ADDRESS_BITS(FIFO_BITS)
  ) beats (
      .clk(clk),
      .rst(rst),
      .in_valid(beat_valid),
      .in_ready(),
      .in_data(beat_data),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(valid),
      .out_ready(pop),
      .out_data(data),
      .out_row(),
      .out_channel()
  );

  typedef enum logic [1:0] {
    IDLE,
    TABLE,
    HEADER,
    TILE
  } state_t;
  state_t state;
  logic [15:0] outputs_left, tiles_left, last_table_beat, last_tile_beat;
  logic [31:0] blocks_left;
  logic [3:0] wait_left, waits;
  logic outputs_end;

  assign load_table = valid && state == TABLE;
  assign load_header = valid && state == HEADER && !header_ready[header_bank];
  assign load_tile = valid && state == TILE && !tile_ready && wait_left == 0;
  assign last_part = part == 1'(TABLE_PARTS - 1);
  assign table_place = 16'(beat * TABLE_PARTS) + 16'(part);
  assign table_data = part ? data[8*BUS_BYTES-1-:64] : data[63:0];
  assign pop = (load_table && last_part) || load_header || load_tile;
  assign last_beat = state == TABLE ? beat == last_table_beat
      : state == HEADER ? beat == 16'(HEADER_BEATS - 1) : beat == last_tile_beat;
  // The last beat of a tile of outputs.
  assign outputs_end = last_beat && (load_header ? layer.tiles == 0 : load_tile && tiles_left == 1);

  always_ff @(posedge clk) begin
    reserved <= reserved - (FIFO_BITS + 1)'(pop)
        + (burst_valid && burst_ready ? (FIFO_BITS + 1)'(burst_bytes >> LANE) : '0);
    // There is room for the longest burst, without the words that leave in this cycle.
    room <= reserved <= (FIFO_BITS + 1)'(burst_valid && burst_ready ? DEPTH - 2 * BURST_BEATS
        : DEPTH - BURST_BEATS);
    has_tables <= layer.table_bytes[12:0] != 0;
    last_table_beat <= 16'(layer.table_bytes[12:LANE]) - 1;
    last_tile_beat <= 16'(TILE_BEATS - 1);
    waits <= 4'(WAIT);
    if (layer.mode[layer_registers::FOUR_BITS]) begin
      last_tile_beat <= 16'(FOUR_BEATS - 1);
      waits <= 4'(FOUR_WAIT);
    end
    if (layer.mode[layer_registers::TWO_BITS]) begin
      last_tile_beat <= 16'(TWO_BEATS - 1);
      waits <= 4'(TWO_WAIT);
    end
    if (wait_left != 0) wait_left <= wait_left - 1;
    if (tile_taken) begin
      tile_ready <= 0;
      wait_left <= waits;
    end
    header_ready <= header_ready & ~header_taken;
    if (pop) beat <= last_beat ? '0 : beat + 1;
    if (load_table) part <= !last_part;
    if (load_table && last_part && last_beat) state <= HEADER;
    if (walker_ready) blocks_next <= 0;
    if (load_header && last_beat) begin
      header_ready[header_bank] <= 1;
      header_bank <= !header_bank;
      tiles_left <= 16'(layer.tiles);
      state <= TILE;
    end
    if (load_tile && last_beat) begin
      tile_ready <= 1;
      tiles_left <= tiles_left - 1;
    end
    if (outputs_end) begin
      state <= HEADER;
      outputs_left <= outputs_left - 1;
      if (outputs_left == 1) begin
        outputs_left <= 16'(layer.output_tiles);
        blocks_left <= blocks_left - 1;
        state <= blocks_left == 1 ? IDLE : HEADER;
      end
    end
    if (start) begin
      state <= has_tables ? TABLE : HEADER;
      blocks_next <= has_tables;
      part <= 0;
      outputs_left <= 16'(layer.output_tiles);
      blocks_left <= layer.blocks;
      header_bank <= 0;
      beat <= 0;
    end
    if (rst) begin
      state <= IDLE;
      blocks_next <= 0;
      tile_ready <= 0;
      header_ready <= 0;
      reserved <= 0;
      room <= 1;
      wait_left <= 0;
      beat <= 0;
    end
  end
endmodule
