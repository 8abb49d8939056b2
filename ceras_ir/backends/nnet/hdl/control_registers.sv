// The registers on AXI4-Lite: control and interrupt as in the output of HLS tools, the queue, the
// layer, and read-only registers. `layer_registers` defines the words. A write that has no effect is
// answered with SLVERR, as is an access to a word that does not exist.
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
    input logic core_rst,
    input logic s_awvalid,
    output logic s_awready,
    input logic [ADDRESS_BITS-1:0] s_awaddr,
    input logic s_wvalid,
    output logic s_wready,
    input logic [31:0] s_wdata,
    input logic [3:0] s_wstrb,
    output logic s_bvalid,
    input logic s_bready,
    output logic [1:0] s_bresp,
    input logic s_arvalid,
    output logic s_arready,
    input logic [ADDRESS_BITS-1:0] s_araddr,
    output logic s_rvalid,
    input logic s_rready,
    output logic [31:0] s_rdata,
    output logic [1:0] s_rresp,
    output logic irq,
    output logic start_layer,
    output logic start_queue,
    output logic abort,
    output logic outside,  // a register of the layer has a value outside its limits
    output logic queue_outside,  // a register of the queue
    output logic [63:0] queue_address,
    output logic [31:0] queue_length,
    input logic busy,
    input logic finished,
    input logic [3:0] status,
    input logic [31:0] launches,
    input logic [31:0] cycles,
    // The layers of a queue.
    input logic copy,
    input logic [5:0] copy_word,
    input logic [31:0] copy_value,
    output layer_registers::layer_t layer
);
  localparam WORDS = layer_registers::WORDS;
  localparam FIRST = layer_registers::LAYER;
  localparam INDEX = ADDRESS_BITS - 2;

  logic [32*WORDS-1:0] words;
  logic [WORDS-1:0] faulty, zero_is_faulty;
  logic others_outside;
  logic [32*(FIRST+WORDS)-1:0] all_words;  // zeros precede the layer
  logic [31:0] found, current, value, written, new_value;
  logic [INDEX-1:0] word;
  logic [31:0] put_value;
  logic [5:0] new_word, put_word;
  logic act, writes, refused, set, put, was_put, faulty_value;
  // Of the register of an access, known a cycle before `act`.
  logic is_control, is_layer, exists, idle_writable, busy_writable, writable, starts;
  logic in_layer, found_exists, found_idle, found_busy;
  logic [5:0] layer_word;
  logic is_done, global_enable, enable, pending;

  axi_lite_port #(
      .ADDRESS_BITS(ADDRESS_BITS)
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
      .written(written),
      .refused(refused)
  );

  // The registers of a layer have a single write port, for the bus if idle, and for the queue.
  assign put = copy || (set && is_layer);
  assign new_word = copy ? copy_word : layer_word;
  assign new_value = copy ? copy_value : value;

  register_limits limits (
      .word(put_word),
      .value(put_value),
      .outside(faulty_value),
      .zero_outside(zero_is_faulty)
  );

  // A launch is checked in the cycle of its start, two cycles after the last word is written.
  assign outside = others_outside || faulty[WORDS-1];
  assign all_words = {words, (32 * FIRST)'(0)};

  assign queue_outside = queue_length == 0 || queue_address[63:40] != 0
      || queue_address % layer_registers::DESCRIPTOR_BYTES != 0;

  always_comb begin
    found = '0;
    found_exists = 1;
    case (word)
      INDEX'(layer_registers::CONTROL): begin
        found[layer_registers::BUSY] = busy;
        found[layer_registers::DONE] = is_done;
        found[layer_registers::IDLE] = !busy;
        found[layer_registers::READY] = !busy;
      end
      INDEX'(layer_registers::GLOBAL_ENABLE): begin
        found[0] = global_enable;
      end
      INDEX'(layer_registers::ENABLE): begin
        found[0] = enable;
      end
      INDEX'(layer_registers::PENDING): begin
        found[0] = pending;
      end
      INDEX'(layer_registers::QUEUE_ADDRESS): begin
        found = queue_address[31:0];
      end
      INDEX'(layer_registers::QUEUE_ADDRESS_HIGH): begin
        found = queue_address[63:32];
      end
      INDEX'(layer_registers::QUEUE_LENGTH): begin
        found = queue_length;
      end
      INDEX'(layer_registers::CYCLES): found = cycles;
      INDEX'(layer_registers::STATUS): found = 32'(status);
      INDEX'(layer_registers::LAUNCHES): found = launches;
      INDEX'(layer_registers::IDENTITY): found = layer_registers::VERSION;
      INDEX'(layer_registers::BUILT_LANES): found = LANES;
      INDEX'(layer_registers::BUILT_BUS_BYTES): found = BUS_BYTES;
      INDEX'(layer_registers::BUILT_LINE_BYTES): found = LINE_BYTES;
      INDEX'(layer_registers::BUILT_RESULT_BYTES): found = RESULT_BYTES;
      INDEX'(layer_registers::BUILT_TABLES): found = TABLES;
      default: begin
        found_exists = in_layer;
        if (in_layer) found = all_words[32*word[5:0]+:32];
      end
    endcase
  end

  always_comb begin
    in_layer = word >= INDEX'(FIRST) && word < INDEX'(FIRST + WORDS);
    // If busy, only an abort and the interrupt can be written.
    found_busy = word == INDEX'(layer_registers::CONTROL)
        || word == INDEX'(layer_registers::GLOBAL_ENABLE)
        || word == INDEX'(layer_registers::ENABLE) || word == INDEX'(layer_registers::PENDING);
    found_idle = found_busy || in_layer || word == INDEX'(layer_registers::QUEUE_ADDRESS)
        || word == INDEX'(layer_registers::QUEUE_ADDRESS_HIGH)
        || word == INDEX'(layer_registers::QUEUE_LENGTH);
  end

  assign starts = is_control
      && (written[layer_registers::START] || written[layer_registers::START_QUEUE]);
  assign writable = busy ? busy_writable && !starts : idle_writable;
  assign refused = writes ? !writable : !exists;
  assign set = act && writes && writable;
  assign irq = global_enable && enable && pending;

  // The low half of an address comes first.
  always_comb begin
    layer = '0;
    for (int i = 0; i < WORDS; i++)
      layer[32*(WORDS-1-i)+:32] = words[32*(i<8?i^1:i)+:32];
  end

  always_ff @(posedge clk) begin
    is_control <= word == INDEX'(layer_registers::CONTROL);
    is_layer <= in_layer;
    layer_word <= 6'(word - INDEX'(FIRST));
    exists <= found_exists;
    busy_writable <= found_busy;
    idle_writable <= found_idle;
    start_layer <= set && is_control && written[layer_registers::START];
    start_queue <= set && is_control && written[layer_registers::START_QUEUE]
        && !written[layer_registers::START];
    abort <= set && is_control && written[layer_registers::ABORT];
    others_outside <= faulty[WORDS-2:0] != 0 || layer.ring_bytes > LINE_BYTES
        || layer.table_bytes > 256 * TABLES;
    for (int i = 0; i < WORDS; i++)
      if (put && new_word == 6'(i)) words[32*i+:32] <= new_value;
    was_put <= put;
    put_word <= new_word;
    put_value <= new_value;
    for (int i = 0; i < WORDS; i++) if (was_put && put_word == 6'(i)) faulty[i] <= faulty_value;
    if (set)
      case (word)
        INDEX'(layer_registers::GLOBAL_ENABLE): global_enable <= value[0];
        INDEX'(layer_registers::ENABLE): enable <= value[0];
        INDEX'(layer_registers::PENDING): if (written[0]) pending <= 0;
        INDEX'(layer_registers::QUEUE_ADDRESS): queue_address[31:0] <= value;
        INDEX'(layer_registers::QUEUE_ADDRESS_HIGH): queue_address[63:32] <= value;
        INDEX'(layer_registers::QUEUE_LENGTH): queue_length <= value;
        default: ;
      endcase
    // A read clears the bit only if it returns it.
    if (act && !writes && word == INDEX'(layer_registers::CONTROL)
        && current[layer_registers::DONE])
      is_done <= 0;
    // An end in the cycle of an acknowledgement remains pending.
    if (finished) begin
      is_done <= 1;
      pending <= 1;
    end
    if (rst || core_rst) begin
      was_put <= 0;
      start_layer <= 0;
      start_queue <= 0;
      abort <= 0;
      words <= '0;
      faulty <= zero_is_faulty;
      is_done <= 0;
      pending <= 0;
      enable <= 0;
      global_enable <= 0;
      queue_address <= 0;
      queue_length <= 0;
    end
  end
endmodule
