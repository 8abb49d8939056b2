// The residual of each group of outputs of each block, into one of two halves of its buffer.
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
    input logic arrives,  // all of a half
    output logic [1:0] there,
    input logic [1:0] taken,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    output logic [PLACE_BITS-1:0] burst_place,
    output logic burst_last
);
  typedef enum logic [1:0] {
    IDLE,
    MULTIPLY,
    WAIT,
    ASK
  } state_t;
  state_t state;
  logic ready, step, dense, last_group, last, half, arriving;
  logic [1:0] claimed;
  logic [9:0] pixels;
  logic [31:0] first_pixel, distance, all_bytes, group, left, length;

  block_walker blocks (
      .clk(clk),
      .start(start),
      .step(step),
      .layer(layer),
      .block_rows(),
      .block_columns(),
      .pixels(pixels),
      .first_pixel(first_pixel),
      .last_columns(),
      .last_rows(),
      .last(last)
  );

  assign dense = layer.mode[layer_registers::DENSE_RESIDUAL];
  assign left = layer.outputs - group;
  assign last_group = left <= layer.group_tiles * LANES;
  assign length = last_group ? left : layer.group_tiles * LANES;
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
      .address(ADDRESS_BITS'(layer.residual_address) + ADDRESS_BITS'(distance) + ADDRESS_BITS'(group)),
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
    distance <= first_pixel * layer.residual_pitch;
    all_bytes <= 32'(pixels) * layer.outputs;
    claimed <= claimed & ~taken;
    there <= there & ~taken;
    if (arrives) begin
      there[arriving] <= 1;
      arriving <= !arriving;
    end
    case (state)
      MULTIPLY: state <= WAIT;
      WAIT: state <= ASK;
      ASK:
      if (ready && !claimed[half]) begin
        claimed[half] <= 1;
        half <= !half;
        group <= last_group ? '0 : group + length;
        state <= !last_group ? ASK : last ? IDLE : MULTIPLY;
      end
      default: state <= IDLE;
    endcase
    if (start && layer.mode[layer_registers::HAS_RESIDUAL]) state <= MULTIPLY;
    if (start) begin
      group <= 0;
      half <= 0;
      arriving <= 0;
      claimed <= 0;
      there <= 0;
    end
    if (rst) state <= IDLE;
  end
endmodule
