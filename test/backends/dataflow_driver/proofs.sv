// Properties of the memory port of a circuit, for formal proofs. Each top module has free inputs.

// Requests are held until they are accepted, and do not cross a multiple of the size of a burst.
module reader_proof (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic start,
    input logic [7:0] address,
    input logic [31:0] beats,
    input logic arready,
    input logic rvalid,
    input logic [15:0] rdata,
    input logic [1:0] rresp,
    input logic out_ready
);
  logic [31:0] begun, sent;
  logic done, quiet, failed, arvalid, rready, out_valid, out_last, was_halted;
  logic [7:0] araddr, arlen;
  logic [15:0] out_data;

  memory_reader #(
      .ADDRESS_BITS(8),
      .BUS_BYTES(2),
      .BURST_BEATS(4),
      .DEPTH(8),
      .PACKET_BEATS(3)
  ) dut (
      .clk(clk),
      .rst(rst),
      .halt(halt),
      .start(start),
      .address(address),
      .beats(beats),
      .begun(begun),
      .sent(sent),
      .done(done),
      .quiet(quiet),
      .failed(failed),
      .arvalid(arvalid),
      .arready(arready),
      .araddr(araddr),
      .arlen(arlen),
      .rvalid(rvalid),
      .rready(rready),
      .rdata(rdata),
      .rresp(rresp),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_last(out_last)
  );
  held #(16) requests (clk, rst, arvalid, arready, {araddr, arlen});
  held #(16) words (clk, rst, out_valid, out_ready, out_data);

  logic waited;

  always @(posedge clk) begin
    was_halted <= halt;
    waited <= arvalid && !arready && !rst;
    if (!rst) begin
      assert (rready);
      if (arvalid) assert (araddr[0] == 0 && araddr[2:1] + arlen < 4);
      // While transfers are stopped, there is no new request.
      if (arvalid && was_halted) assert (waited);
    end
  end
endmodule

// Bursts and beats of a queue are held until they are accepted.
module writer_proof (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic burst_valid,
    input logic [7:0] burst_address,
    input logic [7:0] burst_length,
    input logic beat_valid,
    input logic [15:0] beat_data,
    input logic awready,
    input logic wready,
    input logic bvalid,
    input logic [1:0] bresp
);
  logic quiet, failed, awvalid, wvalid, wlast, bready, was_halted, waited;
  logic burst_ready, beat_ready;
  logic [1:0] wstrb;
  logic [7:0] awaddr, awlen;
  logic [15:0] wdata;

  memory_writer #(
      .QUEUES(1),
      .ADDRESS_BITS(8),
      .BUS_BYTES(2)
  ) dut (
      .clk(clk),
      .rst(rst),
      .halt(halt),
      .quiet(quiet),
      .failed(failed),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_length(burst_length),
      .beat_valid(beat_valid),
      .beat_ready(beat_ready),
      .beat_data(beat_data),
      .awvalid(awvalid),
      .awready(awready),
      .awaddr(awaddr),
      .awlen(awlen),
      .wvalid(wvalid),
      .wready(wready),
      .wdata(wdata),
      .wstrb(wstrb),
      .wlast(wlast),
      .bvalid(bvalid),
      .bready(bready),
      .bresp(bresp)
  );
  obeys #(16) beats (clk, rst, beat_valid, beat_ready, beat_data);
  held #(16) bursts (clk, rst, awvalid, awready, {awaddr, awlen});
  held #(19) words (clk, rst, wvalid, wready, {wdata, wstrb, wlast});

  always @(posedge clk) begin
    was_halted <= halt;
    waited <= awvalid && !awready && !rst;
    if (!rst) begin
      assert (bready);
      if (awvalid && was_halted) assert (waited);
      if (quiet) assert (!awvalid && !wvalid);
    end
  end
endmodule
