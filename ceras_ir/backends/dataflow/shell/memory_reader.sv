// Read a range of memory over an AXI4 port as packets of a stream. A packet has PACKET_BEATS beats; the
// last packet of the range may have fewer. A burst does not cross a multiple of its maximum size, and
// so no boundary of 4 KB.
//
// Data is requested only if there is room for it, so it is always accepted. With `halt`, there are no
// requests, and data is discarded; all transfers are finished when `quiet` is set.
module memory_reader #(
    parameter ADDRESS_BITS = 40,
    parameter BUS_BYTES = 8,
    parameter BURST_BEATS = 16,
    parameter DEPTH = 64,  // beats of the queue
    parameter PACKET_BEATS = 1
) (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic start,
    input logic [ADDRESS_BITS-1:0] address,  // a multiple of BUS_BYTES
    input logic [31:0] beats,  // not 0
    output logic [31:0] begun,  // packets, since the start: the first beat is offered
    output logic [31:0] sent,  // packets that are received completely
    output logic done,  // all packets are sent
    output logic quiet,
    output logic failed,  // an error of the memory
    output logic arvalid,
    input logic arready,
    output logic [ADDRESS_BITS-1:0] araddr,
    output logic [7:0] arlen,
    input logic rvalid,
    output logic rready,
    input logic [8*BUS_BYTES-1:0] rdata,
    input logic [1:0] rresp,
    output logic out_valid,
    input logic out_ready,
    output logic [8*BUS_BYTES-1:0] out_data,
    output logic out_last
);
  localparam LANE = $clog2(BUS_BYTES);
  localparam PLACE = $clog2(BURST_BEATS);
  localparam COUNT = $clog2(DEPTH) + 1;
  localparam POSITION = PACKET_BEATS < 2 ? 1 : $clog2(PACKET_BEATS);

  // Requests.
  logic [ADDRESS_BITS-LANE-1:0] at;  // the next beat
  logic [31:0] unasked;
  logic [PLACE:0] whole, burst;
  logic [COUNT-1:0] taken;  // places in the queue that are used or requested
  logic [COUNT-1:0] awaited;  // requested beats that have not arrived
  logic ask, pop;

  assign whole = (PLACE + 1)'(BURST_BEATS) - (PLACE + 1)'(at[PLACE-1:0]);
  assign burst = unasked < 32'(whole) ? (PLACE + 1)'(unasked) : whole;
  assign ask = unasked != 0 && !halt && (!arvalid || arready) && taken <= COUNT'(DEPTH - BURST_BEATS);
  assign pop = out_valid && out_ready;
  assign rready = 1;
  assign quiet = !arvalid && awaited == 0 && !failed;

  always_ff @(posedge clk) begin
    if (arready) arvalid <= 0;
    if (ask) begin
      arvalid <= 1;
      araddr <= {at, LANE'(0)};
      arlen <= 8'(burst) - 8'd1;
      at <= at + (ADDRESS_BITS - LANE)'(burst);
      unasked <= unasked - 32'(burst);
    end
    taken <= taken + (ask ? COUNT'(burst) : '0) - COUNT'(pop);
    awaited <= awaited + (ask ? COUNT'(burst) : '0) - COUNT'(rvalid);
    failed <= rvalid && rresp[1];
    if (start) begin
      at <= address[ADDRESS_BITS-1:LANE];
      unasked <= beats;
    end
    if (rst) begin
      arvalid <= 0;
      unasked <= 0;
      taken <= 0;
      awaited <= 0;
      failed <= 0;
    end
  end

  stream_fifo #(
      .COLUMNS(BUS_BYTES),
      .DEPTH(DEPTH),
      .ADDRESS_BITS($clog2(DEPTH))
  ) queue (
      .clk(clk),
      .rst(rst),
      .in_valid(rvalid && !halt),
      .in_ready(),
      .in_data(rdata),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .out_data(out_data),
      .out_row(),
      .out_channel()
  );

  // Packets.
  logic [31:0] unsent;  // beats
  logic [POSITION-1:0] position;  // in the packet

  assign out_last = unsent == 1 || position == POSITION'(PACKET_BEATS - 1);
  assign done = unsent == 0;

  always_ff @(posedge clk) begin
    begun <= sent + 32'(out_valid || position != 0);
    if (pop) begin
      unsent <= unsent - 1;
      position <= out_last ? '0 : position + 1;
      sent <= sent + 32'(out_last);
    end
    if (start) begin
      unsent <= beats;
      sent <= 0;
      begun <= 0;
    end
    if (rst) begin
      unsent <= 0;
      sent <= 0;
      begun <= 0;
      position <= 0;
    end
  end
endmodule
