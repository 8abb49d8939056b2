// The registers of a circuit on AXI4-Lite; `circuit_registers` defines the words. A write that has no
// effect is answered with SLVERR, as is an access to a word that does not exist.
module shell_registers #(
    parameter CONFIGURATION = 32'h0,
    parameter BUS_BYTES = 8,
    parameter OUTPUTS = 1,
    parameter INPUT_BEATS = 1,
    parameter [32*OUTPUTS-1:0] OUTPUT_BEATS = {OUTPUTS{32'd1}}
) (
    input logic clk,
    input logic rst,
    input logic s_awvalid,
    output logic s_awready,
    input logic [11:0] s_awaddr,
    input logic s_wvalid,
    output logic s_wready,
    input logic [31:0] s_wdata,
    input logic [3:0] s_wstrb,
    output logic s_bvalid,
    input logic s_bready,
    output logic [1:0] s_bresp,
    input logic s_arvalid,
    output logic s_arready,
    input logic [11:0] s_araddr,
    output logic s_rvalid,
    input logic s_rready,
    output logic [31:0] s_rdata,
    output logic [1:0] s_rresp,
    output logic irq,
    output logic start,
    output logic reset,
    output logic outside,  // an address or the size is outside the limits
    output logic [39:0] input_address,
    output logic [31:0] input_bytes,
    output logic [40*OUTPUTS-1:0] output_address,
    input logic busy,
    input logic finished,
    input logic [circuit_registers::STATUS_BITS-1:0] status,
    input logic [31:0] sent,
    input logic [31:0] written,
    input logic [31:0] cycles
);
  localparam INDEX = 10;
  localparam FIRST = circuit_registers::OUTPUTS;
  localparam STEP = circuit_registers::OUTPUT_WORDS;

  logic [31:0] found, current, value, zeroed;
  logic [INDEX-1:0] word;
  logic [63:0] from;  // the address of the input
  logic [64*OUTPUTS-1:0] to;  // the addresses of the outputs
  logic act, writes, refused, writable, exists, set, is_done, enable, pending;

  axi_lite_port #(
      .ADDRESS_BITS(INDEX + 2)
  ) port (
      .clk(clk),
      .rst(rst),
      .s_awvalid(s_awvalid),
      .s_awready(s_awready),
      .s_awaddr(s_awaddr),
      .s_wvalid(s_wvalid),
      .s_wready(s_wready),
      .s_wdata(s_wdata),
      .s_wstrb(s_wstrb),
      .s_bvalid(s_bvalid),
      .s_bready(s_bready),
      .s_bresp(s_bresp),
      .s_arvalid(s_arvalid),
      .s_arready(s_arready),
      .s_araddr(s_araddr),
      .s_rvalid(s_rvalid),
      .s_rready(s_rready),
      .s_rdata(s_rdata),
      .s_rresp(s_rresp),
      .word(word),
      .found(found),
      .current(current),
      .act(act),
      .writes(writes),
      .value(value),
      .written(zeroed),
      .refused(refused)
  );

  always_comb begin
    found = '0;
    exists = 1;
    writable = 0;
    case (word)
      INDEX'(circuit_registers::CONTROL): begin
        found[circuit_registers::BUSY] = busy;
        found[circuit_registers::DONE] = is_done;
        found[circuit_registers::IDLE] = !busy;
        // If busy, only a reset has an effect.
        writable = !busy || !zeroed[circuit_registers::START];
      end
      INDEX'(circuit_registers::STATUS): found = 32'(status);
      INDEX'(circuit_registers::ENABLE): begin
        found[0] = enable;
        writable = 1;
      end
      INDEX'(circuit_registers::PENDING): begin
        found[0] = pending;
        writable = 1;
      end
      INDEX'(circuit_registers::INPUT_ADDRESS): begin
        found = from[31:0];
        writable = !busy;
      end
      INDEX'(circuit_registers::INPUT_ADDRESS_HIGH): begin
        found = from[63:32];
        writable = !busy;
      end
      INDEX'(circuit_registers::INPUT_BYTES): begin
        found = input_bytes;
        writable = !busy;
      end
      INDEX'(circuit_registers::FRAMES_SENT): found = sent;
      INDEX'(circuit_registers::FRAMES_WRITTEN): found = written;
      INDEX'(circuit_registers::CYCLES): found = cycles;
      INDEX'(circuit_registers::IDENTITY): found = circuit_registers::VERSION;
      INDEX'(circuit_registers::CONFIGURATION): found = CONFIGURATION;
      INDEX'(circuit_registers::BUILT_BUS_BYTES): found = BUS_BYTES;
      INDEX'(circuit_registers::BUILT_OUTPUTS): found = OUTPUTS;
      INDEX'(circuit_registers::BUILT_INPUT_BYTES): found = BUS_BYTES * INPUT_BEATS;
      default: begin
        exists = 0;
        for (int i = 0; i < OUTPUTS; i++) begin
          if (word == INDEX'(FIRST + STEP * i)) found = to[64*i+:32];
          if (word == INDEX'(FIRST + STEP * i + 1)) found = to[64*i+32+:32];
          if (word == INDEX'(FIRST + STEP * i + 2)) found = BUS_BYTES * OUTPUT_BEATS[32*i+:32];
          if (word >= INDEX'(FIRST + STEP * i) && word < INDEX'(FIRST + STEP * i + 3)) begin
            exists = 1;
            writable = !busy && word < INDEX'(FIRST + STEP * i + 2);
          end
        end
      end
    endcase
  end

  always_comb begin
    outside = input_bytes == 0 || input_bytes % BUS_BYTES != 0 || from % BUS_BYTES != 0
        || from[63:40] != 0;
    for (int i = 0; i < OUTPUTS; i++)
      outside = outside || to[64*i+:64] % BUS_BYTES != 0 || to[64*i+40+:24] != 0;
  end

  assign input_address = from[39:0];
  always_comb for (int i = 0; i < OUTPUTS; i++) output_address[40*i+:40] = to[64*i+:40];

  assign refused = writes ? !writable : !exists;
  assign set = act && writes && writable;
  assign start = set && word == INDEX'(circuit_registers::CONTROL)
      && zeroed[circuit_registers::START] && !zeroed[circuit_registers::RESET];
  assign reset = set && word == INDEX'(circuit_registers::CONTROL)
      && zeroed[circuit_registers::RESET];
  assign irq = enable && pending;

  always_ff @(posedge clk) begin
    if (set)
      case (word)
        INDEX'(circuit_registers::ENABLE): enable <= value[0];
        INDEX'(circuit_registers::PENDING): if (zeroed[0]) pending <= 0;
        INDEX'(circuit_registers::INPUT_ADDRESS): from[31:0] <= value;
        INDEX'(circuit_registers::INPUT_ADDRESS_HIGH): from[63:32] <= value;
        INDEX'(circuit_registers::INPUT_BYTES): input_bytes <= value;
        default:
        for (int i = 0; i < OUTPUTS; i++) begin
          if (word == INDEX'(FIRST + STEP * i)) to[64*i+:32] <= value;
          if (word == INDEX'(FIRST + STEP * i + 1)) to[64*i+32+:32] <= value;
        end
      endcase
    if (start || reset) is_done <= 0;
    // An end in the cycle of an acknowledgement remains pending.
    if (finished) begin
      is_done <= 1;
      pending <= 1;
    end
    if (rst) begin
      is_done <= 0;
      enable <= 0;
      pending <= 0;
      from <= 0;
      input_bytes <= 0;
      to <= '0;
    end
  end
endmodule
