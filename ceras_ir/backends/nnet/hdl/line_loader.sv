// Load each row of the input a single time into the ring of the line buffer, if a slot is free.
module line_loader #(
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 18,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    input layer_registers::layer_t layer,
    input logic [31:0] rows_free,  // the number of rows that are no longer needed
    input logic row_arrives,
    output logic [31:0] rows_there,
    output logic idle,  // all rows were loaded a cycle before
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    output logic [PLACE_BITS-1:0] burst_place,
    output logic burst_last
);
  logic ready, go, running, complete, room;
  logic [31:0] row;
  logic [ADDRESS_BITS-1:0] address;
  logic [PLACE_BITS:0] place, next_place;

  assign idle = !running && complete;
  assign go = running && ready && room;
  assign next_place = place + (PLACE_BITS + 1)'(layer.row_bytes);

  run_walker #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(PLACE_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) walker (
      .clk(clk),
      .rst(rst),
      .start(go),
      .ready(ready),
      .address(address),
      .runs(layer.row_runs),
      .length(layer.run_bytes),
      .pitch(layer.input_pitch),
      .place(PLACE_BITS'(place)),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(burst_place),
      .burst_last(burst_last)
  );

  always_ff @(posedge clk) begin
    // `room` is valid two cycles after a row, the earliest cycle in which the walker is ready.
    room <= $signed(row - rows_free) < $signed(layer.slots);
    complete <= rows_there == layer.input_rows;
    rows_there <= rows_there + 32'(row_arrives);
    if (go) begin
      row <= row + 1;
      running <= row + 1 != layer.input_rows;
      address <= address + ADDRESS_BITS'(layer.row_pitch);
      place <= next_place == (PLACE_BITS + 1)'(layer.ring_bytes) ? '0 : next_place;
    end
    if (start) begin
      running <= 1;
      room <= 1;
      row <= 0;
      rows_there <= 0;
      address <= ADDRESS_BITS'(layer.input_address);
      place <= 0;
    end
    if (rst) running <= 0;
  end
endmodule
