// Write runs of bytes from a buffer over an AXI4 port, in bursts. The buffer responds after READ
// cycles. With `halt`, the current burst is finished, and no further burst starts.
module axi_writer #(
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 16,
    parameter BUS_BYTES = 16,
    parameter BURST_BYTES = 256,
    parameter READ = 4
) (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic start,
    output logic ready,
    input logic [ADDRESS_BITS-1:0] address,
    input logic [31:0] runs,
    input logic [31:0] length,
    input logic [31:0] pitch,
    input logic [PLACE_BITS-1:0] place,
    output logic read_done,  // with the last byte that leaves the buffer
    output logic quiet,  // all started runs are written
    output logic [PLACE_BITS-1:0] read_address,
    input logic [8*BUS_BYTES-1:0] read_data,
    output logic awvalid,
    input logic awready,
    output logic [ADDRESS_BITS-1:0] awaddr,
    output logic [7:0] awlen,
    output logic wvalid,
    input logic wready,
    output logic [8*BUS_BYTES-1:0] wdata,
    output logic [BUS_BYTES-1:0] wstrb,
    output logic wlast,
    input logic bvalid,
    output logic bready,
    input logic [1:0] bresp,
    output logic failed  // an error of the memory
);
  localparam SIZE_BITS = $clog2(BURST_BYTES) + 1;
  localparam LANE = $clog2(BUS_BYTES);
  localparam DEPTH = 16;
  localparam COLUMNS = BUS_BYTES + BUS_BYTES / 8 + 1;

  logic burst_valid, burst_ready, burst_last;
  logic [ADDRESS_BITS-1:0] burst_address;
  logic [SIZE_BITS-1:0] burst_bytes;
  logic [PLACE_BITS-1:0] burst_place;

  run_walker #(
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(PLACE_BITS),
      .BURST_BYTES(BURST_BYTES)
  ) walker (
      .clk(clk),
      .rst(rst || halt),
      .start(start),
      .ready(ready),
      .address(address),
      .runs(runs),
      .length(length),
      .pitch(pitch),
      .place(place),
      .burst_valid(burst_valid),
      .burst_ready(burst_ready),
      .burst_address(burst_address),
      .burst_bytes(burst_bytes),
      .burst_place(burst_place),
      .burst_last(burst_last)
  );

  // The current burst.
  logic active, last, ask, final_beat, pop;
  logic [LANE-1:0] skip;
  logic [SIZE_BITS:0] stop, position;
  logic [PLACE_BITS-1:0] from;
  logic [4:0] in_flight;
  logic [15:0] unanswered;

  assign final_beat = position + (SIZE_BITS + 1)'(BUS_BYTES) >= stop;
  assign ask = active && in_flight != 5'(DEPTH);
  assign burst_ready = (!active || (ask && final_beat)) && (!awvalid || awready);
  assign read_address = from + PLACE_BITS'(position);

  // Signals that accompany the data.
  logic [READ-1:0] asked, ends, releases;
  logic [READ*BUS_BYTES-1:0] masks;
  logic [BUS_BYTES-1:0] mask;

  always_comb
    for (int j = 0; j < BUS_BYTES; j++)
    mask[j] = position + (SIZE_BITS + 1)'(j) < stop && (position != 0 || LANE'(j) >= skip);

  assign read_done = releases[READ-2];
  assign bready = 1;
  assign pop = wvalid && wready;
  assign quiet = ready && !burst_valid && !active && !awvalid && in_flight == 0 && unanswered == 0
      && !failed;

  always_ff @(posedge clk) begin
    if (awready) awvalid <= 0;
    asked <= {asked[READ-2:0], ask};
    ends <= {ends[READ-2:0], final_beat};
    masks <= {masks[(READ-1)*BUS_BYTES-1:0], mask};
    releases <= {releases[READ-2:0], ask && final_beat && last};
    if (ask) begin
      position <= position + (SIZE_BITS + 1)'(BUS_BYTES);
      if (final_beat) active <= 0;
    end
    if (burst_valid && burst_ready) begin
      active <= 1;
      awvalid <= 1;
      awaddr <= {burst_address[ADDRESS_BITS-1:LANE], LANE'(0)};
      awlen <= 8'(((SIZE_BITS + 1)'(burst_bytes) + (SIZE_BITS + 1)'(burst_address[LANE-1:0]) - 1) >> LANE);
      skip <= burst_address[LANE-1:0];
      stop <= (SIZE_BITS + 1)'(burst_bytes) + (SIZE_BITS + 1)'(burst_address[LANE-1:0]);
      from <= burst_place - PLACE_BITS'(burst_address[LANE-1:0]);
      last <= burst_last;
      position <= 0;
    end
    in_flight <= in_flight + 5'(ask) - 5'(pop);
    failed <= bvalid && bresp[1];
    case ({
      burst_valid && burst_ready, bvalid
    })
      2'b10: unanswered <= unanswered + 1;
      2'b01: unanswered <= unanswered - 1;
      default: ;
    endcase
    if (rst) begin
      active <= 0;
      awvalid <= 0;
      asked <= 0;
      releases <= 0;
      in_flight <= 0;
      failed <= 0;
      unanswered <= 0;
    end
  end

  logic [8*COLUMNS-1:0] word;

  stream_fifo #(
      .COLUMNS(COLUMNS),
      .DEPTH(DEPTH),
      .ADDRESS_BITS($clog2(DEPTH))
  ) beats (
      .clk(clk),
      .rst(rst),
      .in_valid(asked[READ-1]),
      .in_ready(),
      .in_data((8 * COLUMNS)'({ends[READ-1], masks[READ*BUS_BYTES-1-:BUS_BYTES], read_data})),
      .in_row(16'b0),
      .in_channel(16'b0),
      .out_valid(wvalid),
      .out_ready(wready),
      .out_data(word),
      .out_row(),
      .out_channel()
  );

  assign {wlast, wstrb, wdata} = (9 * BUS_BYTES + 1)'(word);
endmodule
