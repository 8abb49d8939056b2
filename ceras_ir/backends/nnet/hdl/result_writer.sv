// Write each full half of the output buffer to its pixels in memory.
module result_writer #(
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 16
) (
    input logic clk,
    input logic rst,
    input logic start,
    output logic idle,
    input layer_registers::layer_t layer,
    input logic [1:0] full,
    output logic [1:0] written,
    input logic [1:0][9:0] pixels,
    input logic [1:0][31:0] group,
    input logic [1:0][31:0] bytes,  // or floats
    output logic writer_start,
    input logic writer_ready,
    output logic [ADDRESS_BITS-1:0] address,
    output logic [31:0] runs,
    output logic [31:0] length,
    output logic [31:0] pitch,
    output logic [PLACE_BITS-1:0] place,
    input logic read_done
);
  typedef enum logic [2:0] {
    IDLE,
    MULTIPLY,
    ADD,
    ASK,
    READ
  } state_t;
  state_t state;
  logic half, dense;
  logic [1:0] size;  // bits of the index of a byte in a result
  logic [9:0] count;  // pixels of the half
  logic [31:0] distance, block_distance, all_bytes;

  assign idle = state == IDLE;
  assign dense = layer.mode[layer_registers::DENSE_RESULT];
  assign writer_start = state == ASK && writer_ready;
  assign runs = dense ? 1 : 32'(count);
  assign size = layer.mode[layer_registers::MAKES_FLOATS] ? 2'd2 : 2'd0;
  assign length = dense ? all_bytes : bytes[half] << size;
  assign pitch = layer.result_pitch;
  assign place = {half, (PLACE_BITS - 1)'(0)};
  assign written = state == READ && read_done ? 2'b01 << half : 2'b00;

  always_ff @(posedge clk) begin
    count <= pixels[half];
    all_bytes <= (32'(count) * 16'(bytes[half])) << size;
    address <= ADDRESS_BITS'(layer.result_address) + ADDRESS_BITS'(distance)
        + ADDRESS_BITS'(group[half] << size);
    case (state)
      IDLE:
      if (full[half]) begin
        // A block begins with the first group, at the end of the previous block.
        if (group[half] == 0) distance <= distance + block_distance;
        state <= MULTIPLY;
      end
      MULTIPLY: begin
        block_distance <= 34'(count) * 24'(layer.result_pitch);
        state <= ADD;
      end
      ADD: state <= ASK;
      ASK: if (writer_ready) state <= READ;
      READ:
      if (read_done) begin
        half <= !half;
        state <= IDLE;
      end
      default: state <= IDLE;
    endcase
    if (start) begin
      half <= 0;
      distance <= 0;
      block_distance <= 0;
    end
    if (rst) state <= IDLE;
  end
endmodule
