// Read bursts for four clients over an AXI4 port. The first client has priority, the last one yields
// to the others, which alternate. A client requests only data for which it has room, so data is
// always accepted. With `halt`, there are no requests, and data is discarded until `quiet`.
module axi_reader #(
    parameter ADDRESS_BITS = 40,
    parameter PLACE_BITS = 18,
    parameter BUS_BYTES = 16,
    parameter BURST_BYTES = 256,
    parameter SIZE_BITS = $clog2(BURST_BYTES) + 1,
    parameter CLIENTS = 4
) (
    input logic clk,
    input logic rst,
    input logic halt,
    input logic [CLIENTS-1:0] burst_valid,
    output logic [CLIENTS-1:0] burst_ready,
    input logic [CLIENTS*ADDRESS_BITS-1:0] burst_address,
    input logic [CLIENTS*SIZE_BITS-1:0] burst_bytes,
    input logic [CLIENTS*PLACE_BITS-1:0] burst_place,
    input logic [CLIENTS-1:0] burst_last,
    output logic arvalid,
    input logic arready,
    output logic [ADDRESS_BITS-1:0] araddr,
    output logic [7:0] arlen,
    input logic rvalid,
    output logic rready,
    input logic [8*BUS_BYTES-1:0] rdata,
    input logic [1:0] rresp,
    input logic rlast,
    output logic [CLIENTS-1:0] beat_valid,  // per client
    output logic [PLACE_BITS-1:0] beat_place,  // of the first byte of the beat
    output logic [BUS_BYTES-1:0] beat_mask,
    output logic [8*BUS_BYTES-1:0] beat_data,
    output logic beat_last,
    output logic failed,  // an error of the memory
    output logic quiet
);
  localparam LANE = $clog2(BUS_BYTES);
  localparam OUTSTANDING = 16;
  localparam TAG = 5;
  localparam TAG_BITS = CLIENTS + PLACE_BITS + LANE + SIZE_BITS + 1 + 1;

  logic [TAG_BITS-1:0] tags[0:OUTSTANDING-1];
  logic [TAG-2:0] asked, answered;
  logic [TAG-1:0] outstanding;
  logic [CLIENTS-1:0] chosen;
  logic free, granted, turn;

  logic [ADDRESS_BITS-1:0] address;
  logic [SIZE_BITS:0] end_byte, last_byte;
  logic [PLACE_BITS-1:0] place;
  logic last;

  assign free = (!arvalid || arready) && !outstanding[TAG-1];
  assign chosen = burst_valid[0] ? 4'b0001
      : burst_valid[1] && !(burst_valid[2] && turn) ? 4'b0010 : burst_valid[2] ? 4'b0100
      : burst_valid[3] ? 4'b1000 : 4'b0000;
  assign burst_ready = !free || halt ? 4'b0000 : chosen;
  assign granted = free && !halt && |burst_valid;
  assign quiet = !arvalid && outstanding == 0;

  always_comb begin
    address = '0;
    place = '0;
    last = 0;
    end_byte = '0;
    last_byte = '0;
    for (int i = 0; i < CLIENTS; i++)
      if (chosen[i]) begin
        address = burst_address[i*ADDRESS_BITS+:ADDRESS_BITS];
        place = burst_place[i*PLACE_BITS+:PLACE_BITS];
        last = burst_last[i];
        end_byte = (SIZE_BITS + 1)'(burst_bytes[i*SIZE_BITS+:SIZE_BITS])
            + (SIZE_BITS + 1)'(burst_address[i*ADDRESS_BITS+:LANE]);
        last_byte = (SIZE_BITS + 1)'(burst_bytes[i*SIZE_BITS+:SIZE_BITS])
            + (SIZE_BITS + 1)'(burst_address[i*ADDRESS_BITS+:LANE]) - 1;
      end
  end

  always_ff @(posedge clk) begin
    if (arready) arvalid <= 0;
    if (burst_ready[1] || burst_ready[2]) turn <= burst_ready[1];
    if (granted) begin
      arvalid <= 1;
      araddr <= {address[ADDRESS_BITS-1:LANE], LANE'(0)};
      arlen <= 8'(last_byte >> LANE);
      tags[asked] <= {
        chosen, place - PLACE_BITS'(address[LANE-1:0]), address[LANE-1:0], end_byte, last
      };
      asked <= asked + 1;
    end
    case ({
      granted, rvalid && rlast
    })
      2'b10: outstanding <= outstanding + 1;
      2'b01: outstanding <= outstanding - 1;
      default: ;
    endcase
    if (rst) begin
      arvalid <= 0;
      asked <= 0;
      outstanding <= 0;
      turn <= 0;
    end
  end

  logic [CLIENTS-1:0] client;
  logic [PLACE_BITS-1:0] to;
  logic [LANE-1:0] skip;
  logic [SIZE_BITS:0] stop, position;
  logic ends;

  assign rready = 1;
  assign {client, to, skip, stop, ends} = tags[answered];

  always_ff @(posedge clk) begin
    beat_valid <= rvalid && !halt ? client : '0;
    failed <= rvalid && rresp[1];
    beat_data <= rdata;
    beat_place <= to + PLACE_BITS'(position);
    beat_last <= rlast && ends;
    for (int j = 0; j < BUS_BYTES; j++)
    beat_mask[j] <= position + (SIZE_BITS + 1)'(j) < stop && (position != 0 || LANE'(j) >= skip);
    if (rvalid) begin
      position <= rlast ? '0 : position + (SIZE_BITS + 1)'(BUS_BYTES);
      answered <= answered + (TAG - 1)'(rlast);
    end
    if (rst) begin
      beat_valid <= 0;
      failed <= 0;
      position <= 0;
      answered <= 0;
    end
  end
endmodule
