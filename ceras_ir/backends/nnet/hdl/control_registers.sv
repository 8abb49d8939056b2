// The AXI4-Lite port: start and interrupt as in the output of HLS tools, the registers of the
// layer, and read-only registers. `layer_registers` defines the words.
module control_registers #(
    parameter ADDRESS_BITS = 9,
    parameter LANES = 16,
    parameter BUS_BYTES = 16,
    parameter LINE_BYTES = 262144,
    parameter RESULT_BYTES = 65536,
    parameter TABLES = 16
) (
    input logic clk,
    input logic rst,
    input logic s_awvalid,
    output logic s_awready,
    input logic [ADDRESS_BITS-1:0] s_awaddr,
    input logic s_wvalid,
    output logic s_wready,
    input logic [31:0] s_wdata,
    output logic s_bvalid,
    input logic s_bready,
    input logic s_arvalid,
    output logic s_arready,
    input logic [ADDRESS_BITS-1:0] s_araddr,
    output logic s_rvalid,
    input logic s_rready,
    output logic [31:0] s_rdata,
    output logic irq,
    output logic start,
    input logic done,
    output layer_registers::layer_t layer
);
  localparam WORDS = layer_registers::WORDS;
  localparam INDEX = ADDRESS_BITS - 2;

  logic [32*WORDS-1:0] words;
  logic [31:0] cycles;
  logic busy, is_done, global_enable, enable, pending, write, read;
  logic [INDEX-1:0] to, from;

  assign write = s_awvalid && s_wvalid && (!s_bvalid || s_bready);
  assign s_awready = write;
  assign s_wready = write;
  assign read = s_arvalid && (!s_rvalid || s_rready);
  assign s_arready = read;
  assign to = s_awaddr[ADDRESS_BITS-1:2];
  assign from = s_araddr[ADDRESS_BITS-1:2];
  assign irq = global_enable && enable && pending;

  // The low half of an address comes first.
  always_comb begin
    layer = '0;
    for (int i = 0; i < WORDS; i++)
      layer[32*(WORDS-1-i)+:32] = words[32*(i<8?i^1:i)+:32];
  end

  always_ff @(posedge clk) begin
    start <= 0;
    cycles <= cycles + 32'(busy);
    if (s_bready) s_bvalid <= 0;
    if (s_rready) s_rvalid <= 0;
    if (read) begin
      s_rvalid <= 1;
      s_rdata <= 0;
      case (from)
        INDEX'(layer_registers::CONTROL): begin
          s_rdata <= {28'b0, !busy, !busy, is_done, busy};
          is_done <= 0;
        end
        INDEX'(layer_registers::GLOBAL_ENABLE): s_rdata <= {31'b0, global_enable};
        INDEX'(layer_registers::ENABLE): s_rdata <= {31'b0, enable};
        INDEX'(layer_registers::PENDING): s_rdata <= {31'b0, pending};
        INDEX'(layer_registers::CYCLES): s_rdata <= cycles;
        INDEX'(layer_registers::IDENTITY): s_rdata <= layer_registers::VERSION;
        INDEX'(layer_registers::BUILT_LANES): s_rdata <= LANES;
        INDEX'(layer_registers::BUILT_BUS_BYTES): s_rdata <= BUS_BYTES;
        INDEX'(layer_registers::BUILT_LINE_BYTES): s_rdata <= LINE_BYTES;
        INDEX'(layer_registers::BUILT_RESULT_BYTES): s_rdata <= RESULT_BYTES;
        INDEX'(layer_registers::BUILT_TABLES): s_rdata <= TABLES;
        default:
        for (int i = 0; i < WORDS; i++)
          if (from == INDEX'(i + layer_registers::LAYER)) s_rdata <= words[32*i+:32];
      endcase
    end
    if (done) begin
      busy <= 0;
      is_done <= 1;
      pending <= 1;
    end
    if (write) begin
      s_bvalid <= 1;
      case (to)
        INDEX'(layer_registers::CONTROL):
        if (s_wdata[0] && !busy) begin
          start <= 1;
          busy <= 1;
          cycles <= 0;
        end
        INDEX'(layer_registers::GLOBAL_ENABLE): global_enable <= s_wdata[0];
        INDEX'(layer_registers::ENABLE): enable <= s_wdata[0];
        INDEX'(layer_registers::PENDING): if (s_wdata[0]) pending <= 0;
        default:
        for (int i = 0; i < WORDS; i++)
          if (to == INDEX'(i + layer_registers::LAYER) && !busy) words[32*i+:32] <= s_wdata;
      endcase
    end
    if (rst) begin
      busy <= 0;
      is_done <= 0;
      pending <= 0;
      enable <= 0;
      global_enable <= 0;
      s_bvalid <= 0;
      s_rvalid <= 0;
    end
  end
endmodule
