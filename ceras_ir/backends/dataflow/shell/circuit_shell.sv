// Connect a circuit to memory: registers on AXI4-Lite, and an AXI4 port that reads frames of the input
// and writes frames of the outputs.
//
// A failure or a reset by software stops the transfers, waits until all are finished, and then resets
// the circuit, so that the next launch finds no data of this one.
module circuit_shell #(
    parameter CONFIGURATION = 32'h0,  // the hash of the circuit
    parameter BUS_BYTES = 8,
    parameter OUTPUTS = 1,
    parameter INPUT_BEATS = 1,  // of a frame
    parameter [32*OUTPUTS-1:0] OUTPUT_BEATS = {OUTPUTS{32'd1}}
) (
    input logic clk,
    input logic rst,
    output logic irq,
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
    output logic m_arvalid,
    input logic m_arready,
    output logic [39:0] m_araddr,
    output logic [7:0] m_arlen,
    input logic m_rvalid,
    output logic m_rready,
    input logic [8*BUS_BYTES-1:0] m_rdata,
    input logic [1:0] m_rresp,
    output logic m_awvalid,
    input logic m_awready,
    output logic [39:0] m_awaddr,
    output logic [7:0] m_awlen,
    output logic m_wvalid,
    input logic m_wready,
    output logic [8*BUS_BYTES-1:0] m_wdata,
    output logic [BUS_BYTES-1:0] m_wstrb,
    output logic m_wlast,
    input logic m_bvalid,
    output logic m_bready,
    input logic [1:0] m_bresp,
    // The circuit.
    output logic circuit_rst,
    input logic [1:0] input_errors,
    output logic input_valid,
    input logic input_ready,
    output logic [8*BUS_BYTES-1:0] input_data,
    output logic input_last,
    input logic [OUTPUTS-1:0] output_valid,
    output logic [OUTPUTS-1:0] output_ready,
    input logic [OUTPUTS*8*BUS_BYTES-1:0] output_data,
    input logic [OUTPUTS-1:0] output_last
);
  localparam ADDRESS_BITS = 40;
  localparam BURST_BEATS = 16;
  localparam STATUS_BITS = circuit_registers::STATUS_BITS;

  typedef enum logic [1:0] {
    IDLE,
    RUN,
    STOP,
    CLEAR
  } state_t;
  state_t state;

  logic start, reset, outside, begin_launch, busy, finished, halt, clear, complete, was_reset;
  logic [ADDRESS_BITS-1:0] input_address;
  logic [31:0] input_bytes, begun, sent, written, cycles;
  logic [OUTPUTS*ADDRESS_BITS-1:0] output_address;
  logic [STATUS_BITS-1:0] status, failures;

  shell_registers #(
      .CONFIGURATION(CONFIGURATION),
      .BUS_BYTES(BUS_BYTES),
      .OUTPUTS(OUTPUTS),
      .INPUT_BEATS(INPUT_BEATS),
      .OUTPUT_BEATS(OUTPUT_BEATS)
  ) registers (
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
      .irq(irq),
      .start(start),
      .reset(reset),
      .outside(outside),
      .input_address(input_address),
      .input_bytes(input_bytes),
      .output_address(output_address),
      .busy(busy),
      .finished(finished),
      .status(status),
      .sent(sent),
      .written(written),
      .cycles(cycles)
  );

  // The input.
  logic reader_done, reader_quiet, read_failed;

  memory_reader #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .BUS_BYTES(BUS_BYTES),
      .BURST_BEATS(BURST_BEATS),
      .PACKET_BEATS(INPUT_BEATS)
  ) reader (
      .clk(clk),
      .rst(rst || clear),
      .halt(halt),
      .start(begin_launch),
      .address(input_address),
      .beats(input_bytes / BUS_BYTES),
      .begun(begun),
      .sent(sent),
      .done(reader_done),
      .quiet(reader_quiet),
      .failed(read_failed),
      .arvalid(m_arvalid),
      .arready(m_arready),
      .araddr(m_araddr),
      .arlen(m_arlen),
      .rvalid(m_rvalid),
      .rready(m_rready),
      .rdata(m_rdata),
      .rresp(m_rresp),
      .out_valid(input_valid),
      .out_ready(input_ready),
      .out_data(input_data),
      .out_last(input_last)
  );

  // The outputs. Rows that consist of padding need no input, so a circuit may offer frames of packets
  // that do not exist; these wait.
  logic [OUTPUTS-1:0] wrong_ends, passed, burst_valid, burst_ready, beat_valid, beat_ready;
  logic [OUTPUTS*ADDRESS_BITS-1:0] burst_address;
  logic [OUTPUTS*8-1:0] burst_length;
  logic [OUTPUTS*8*BUS_BYTES-1:0] beat_data;
  logic writer_quiet, write_failed;

  for (genvar i = 0; i < OUTPUTS; i++) begin : out
    logic [31:0] frames;

    assign passed[i] = frames != written;

    frame_queue #(
        .ADDRESS_BITS(ADDRESS_BITS),
        .BUS_BYTES(BUS_BYTES),
        .BURST_BEATS(BURST_BEATS),
        .FRAME_BEATS(OUTPUT_BEATS[32*i+:32])
    ) queue (
        .clk(clk),
        .rst(rst || clear),
        .start(begin_launch),
        .address(output_address[i*ADDRESS_BITS+:ADDRESS_BITS]),
        .limit(begun),
        .frames(frames),
        .wrong_end(wrong_ends[i]),
        .in_valid(output_valid[i]),
        .in_ready(output_ready[i]),
        .in_data(output_data[i*8*BUS_BYTES+:8*BUS_BYTES]),
        .in_last(output_last[i]),
        .burst_valid(burst_valid[i]),
        .burst_ready(burst_ready[i]),
        .burst_address(burst_address[i*ADDRESS_BITS+:ADDRESS_BITS]),
        .burst_length(burst_length[i*8+:8]),
        .beat_valid(beat_valid[i]),
        .beat_ready(beat_ready[i]),
        .beat_data(beat_data[i*8*BUS_BYTES+:8*BUS_BYTES])
    );
  end

  memory_writer #(
      .QUEUES(OUTPUTS),
      .ADDRESS_BITS(ADDRESS_BITS),
      .BUS_BYTES(BUS_BYTES)
  ) writer (
      .clk(clk),
      .rst(rst || clear),
      .halt(halt),
      .quiet(writer_quiet),
      .failed(write_failed),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_length(burst_length),
      .beat_valid(beat_valid),
      .beat_ready(beat_ready),
      .beat_data(beat_data),
      .awvalid(m_awvalid),
      .awready(m_awready),
      .awaddr(m_awaddr),
      .awlen(m_awlen),
      .wvalid(m_wvalid),
      .wready(m_wready),
      .wdata(m_wdata),
      .wstrb(m_wstrb),
      .wlast(m_wlast),
      .bvalid(m_bvalid),
      .bready(m_bready),
      .bresp(m_bresp)
  );

  // The states of a launch.
  assign begin_launch = state == IDLE && start && !outside;
  assign busy = state != IDLE;
  assign halt = state == STOP;
  assign clear = state == CLEAR;
  assign complete = reader_done && reader_quiet && written == sent && writer_quiet;
  assign finished = (state == RUN && complete && failures == 0) || (state == CLEAR && !was_reset);

  always_comb begin
    failures = '0;
    failures[circuit_registers::READ_FAILED] = state == RUN && read_failed;
    failures[circuit_registers::WRITE_FAILED] = state == RUN && write_failed;
    failures[circuit_registers::ABORTED] = state == RUN && reset;
    failures[circuit_registers::REJECTED] = state == IDLE && start && outside;
    failures[circuit_registers::SHORT_PACKET] = state == RUN && complete && input_errors[0];
    failures[circuit_registers::LONG_PACKET] = state == RUN && complete && input_errors[1];
    failures[circuit_registers::WRONG_END] = state == RUN && wrong_ends != 0;
  end

  always_ff @(posedge clk) begin
    circuit_rst <= clear;
    status <= status | failures;
    cycles <= cycles + 32'(busy);
    if (passed == '1) written <= written + 1;
    case (state)
      IDLE: begin
        if (start || reset) begin
          state <= begin_launch ? RUN : STOP;
          was_reset <= reset;
          status <= failures;
          cycles <= 0;
        end
        if (begin_launch) written <= 0;
      end
      RUN: if (complete) state <= IDLE;
      STOP: if (reader_quiet && writer_quiet) state <= CLEAR;
      default: begin
        state <= IDLE;
        written <= 0;
      end
    endcase
    if (state == RUN && failures != 0) state <= STOP;
    if (rst) begin
      circuit_rst <= 1;
      state <= IDLE;
      was_reset <= 0;
      status <= '0;
      cycles <= 0;
      written <= 0;
    end
  end
endmodule
