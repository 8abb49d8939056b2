// Load the layers of a queue from memory. The next layer is loaded while the current one runs, and
// copied to the registers between launches, a word per cycle.
module launch_queue #(
    parameter ADDRESS_BITS = 40,
    parameter BUS_BYTES = 16,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1
) (
    input logic clk,
    input logic rst,
    input logic start,
    input logic [ADDRESS_BITS-1:0] first,  // a multiple of DESCRIPTOR_BYTES
    input logic [31:0] length,
    output logic burst_valid,
    input logic burst_ready,
    output logic [ADDRESS_BITS-1:0] burst_address,
    output logic [SIZE_BITS-1:0] burst_bytes,
    input logic beat_valid,
    input logic [8*BUS_BYTES-1:0] beat_data,
    input logic wants_layer,
    output logic write,
    output logic [5:0] word,
    output logic [31:0] value,
    output logic written  // with the last word
);
  localparam WORDS = layer_registers::WORDS;
  localparam BUS_WORDS = BUS_BYTES / 4;
  localparam BEATS = (WORDS + BUS_WORDS - 1) / BUS_WORDS;
  localparam BEAT_BITS = $clog2(BEATS + 1);
  localparam PART_BITS = $clog2(BUS_WORDS);

  logic [8*BUS_BYTES-1:0] beats[0:BEATS-1];
  logic [8*BUS_BYTES-1:0] beat;
  logic [BEAT_BITS-1:0] arrived;
  logic [31:0] left;
  logic asked, copies;
  logic [5:0] next;

  assign burst_valid = left != 0 && !asked;
  assign burst_bytes = SIZE_BITS'(BEATS * BUS_BYTES);
  assign copies = wants_layer && arrived == BEAT_BITS'(BEATS) && !written;
  assign beat = beats[BEAT_BITS'(next>>PART_BITS)];

  always_ff @(posedge clk) if (beat_valid) beats[arrived] <= beat_data;

  always_ff @(posedge clk) begin
    write <= copies;
    word <= next;
    value <= beat[32*next[PART_BITS-1:0]+:32];
    written <= 0;
    if (beat_valid) arrived <= arrived + 1;
    if (burst_ready) asked <= 1;
    if (copies) begin
      next <= next + 1;
      if (next == 6'(WORDS - 1)) begin
        next <= 0;
        written <= 1;
        arrived <= 0;
        asked <= 0;
        left <= left - 1;
        burst_address <= burst_address + ADDRESS_BITS'(layer_registers::DESCRIPTOR_BYTES);
      end
    end
    if (start) begin
      left <= length;
      burst_address <= first;
    end
    if (rst) begin
      left <= 0;
      asked <= 0;
      arrived <= 0;
      next <= 0;
      write <= 0;
      written <= 0;
    end
  end
endmodule
