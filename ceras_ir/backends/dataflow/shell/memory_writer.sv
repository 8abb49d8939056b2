// Write bursts of several queues over an AXI4 port. The queue with the lowest number has priority. With
// `halt`, no burst starts, and started bursts are finished; all are answered when `quiet` is set.
module memory_writer #(
    parameter QUEUES = 1,
    parameter ADDRESS_BITS = 40,
    parameter BUS_BYTES = 8
) (
    input logic clk,
    input logic rst,
    input logic halt,
    output logic quiet,
    output logic failed,  // an error of the memory
    input logic [QUEUES-1:0] burst_valid,
    output logic [QUEUES-1:0] burst_ready,
    input logic [QUEUES*ADDRESS_BITS-1:0] burst_address,
    input logic [QUEUES*8-1:0] burst_length,  // beats minus 1
    input logic [QUEUES-1:0] beat_valid,
    output logic [QUEUES-1:0] beat_ready,
    input logic [QUEUES*8*BUS_BYTES-1:0] beat_data,
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
    input logic [1:0] bresp
);
  localparam MAX_UNANSWERED = 16;

  logic [QUEUES-1:0] selected;  // the queue of the next burst
  logic [QUEUES-1:0] source;  // the queue of the current burst; 0 if there is none
  logic [ADDRESS_BITS-1:0] address;
  logic [7:0] length, left;  // of the current burst, minus 1
  logic [4:0] unanswered;
  logic ends, free, begins;

  assign selected = burst_valid & (~burst_valid + 1'b1);
  assign wlast = left == 0;
  assign ends = wvalid && wready && wlast;
  assign free = (source == 0 || ends) && (!awvalid || awready) && !halt
      && unanswered != 5'(MAX_UNANSWERED);
  assign burst_ready = free ? selected : '0;
  assign begins = free && burst_valid != 0;
  assign wvalid = (beat_valid & source) != 0;
  assign beat_ready = wready ? source : '0;
  assign wstrb = '1;
  assign bready = 1;
  assign quiet = source == 0 && !awvalid && unanswered == 0 && !failed;

  always_comb begin
    address = '0;
    length = '0;
    wdata = '0;
    for (int i = 0; i < QUEUES; i++) begin
      if (selected[i]) begin
        address = burst_address[i*ADDRESS_BITS+:ADDRESS_BITS];
        length = burst_length[i*8+:8];
      end
      if (source[i]) wdata = beat_data[i*8*BUS_BYTES+:8*BUS_BYTES];
    end
  end

  always_ff @(posedge clk) begin
    if (awready) awvalid <= 0;
    if (wvalid && wready) left <= left - 1;
    if (ends) source <= '0;
    if (begins) begin
      awvalid <= 1;
      awaddr <= address;
      awlen <= length;
      left <= length;
      source <= selected;
    end
    unanswered <= unanswered + 5'(begins) - 5'(bvalid);
    failed <= bvalid && bresp[1];
    if (rst) begin
      awvalid <= 0;
      source <= '0;
      unanswered <= 0;
      failed <= 0;
    end
  end
endmodule
