// Load the residual of each group of outputs of each block into one of the two halves of the
// buffer.
module residual_loader #(
    parameter LANES = 16,
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 16,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    input layer_registers::layer_t layer,
    input logic arrives,  // a half is complete
    output logic [1:0] there,
    input logic [1:0] taken,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    output logic [PLACE_BITS-1:0] burst_place,
    output logic burst_last
);
  localparam SETTLED = 5;

  typedef enum logic [1:0] {
    IDLE,
    SETTLE,
    ASK
  } state_t;
  state_t state;
  logic ready, step, dense, last_group, last, half, arriving;
  logic [1:0] claimed;
  logic [9:0] pixels;
  logic [2:0] settled;
  logic [31:0] block_distance, distance, all_bytes, group, left, length;
  logic [ADDRESS_BITS-1:0] address;

  block_walker blocks (
      .clk(clk),
      .start(start),
      .step(step),
      .layer(layer),
      .block_rows(),
      .block_columns(),
      .pixels(pixels),
      .oversize(),
      .last_columns(),
      .last_rows(),
      .last(last)
  );

  assign dense = layer.mode[layer_registers::DENSE_RESIDUAL];
  assign left = layer.outputs - group;
  assign step = state == ASK && ready && !claimed[half] && last_group;

  run_walker #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(PLACE_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) walker (
      .clk(clk),
      .rst(rst),
      .start(state == ASK && !claimed[half]),
      .ready(ready),
      .address(address),
      .runs(dense ? 1 : 32'(pixels)),
      .length(dense ? all_bytes : length),
      .pitch(layer.residual_pitch),
      .place({half, (PLACE_BITS - 1)'(0)}),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(burst_place),
      .burst_last(burst_last)
  );

  always_ff @(posedge clk) begin
    // These are valid two cycles after a group, the earliest cycle in which the walker is ready.
    last_group <= left <= layer.group_tiles * LANES;
    length <= left <= layer.group_tiles * LANES ? left : layer.group_tiles * LANES;
    address <= ADDRESS_BITS'(layer.residual_address) + ADDRESS_BITS'(distance)
        + ADDRESS_BITS'(group);
    block_distance <= 34'(pixels) * 24'(layer.residual_pitch);
    all_bytes <= 32'(pixels) * 16'(layer.outputs);
    if (step) distance <= distance + block_distance;
    claimed <= claimed & ~taken;
    there <= there & ~taken;
    if (arrives) begin
      there[arriving] <= 1;
      arriving <= !arriving;
    end
    case (state)
      SETTLE: begin
        settled <= settled + 1;
        if (settled == 3'(SETTLED)) state <= ASK;
      end
      ASK:
      if (ready && !claimed[half]) begin
        claimed[half] <= 1;
        half <= !half;
        group <= last_group ? '0 : group + length;
        settled <= 0;
        state <= !last_group ? ASK : last ? IDLE : SETTLE;
      end
      default: state <= IDLE;
    endcase
    if (start && layer.mode[layer_registers::HAS_RESIDUAL]) state <= SETTLE;
    if (start) begin
      settled <= 0;
      distance <= 0;
      group <= 0;
      half <= 0;
      arriving <= 0;
      claimed <= 0;
      there <= 0;
    end
    if (rst) state <= IDLE;
  end
endmodule
