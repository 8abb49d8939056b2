// An AXI4-Lite port for a file of registers: one access at a time, without a combinational path from
// an input of the bus to an output. Address and data of a write arrive in any order.
//
// The cycle of `act` is the cycle of the access. A write then has the merged value, and `refused`
// decides the response: SLVERR or OKAY.
module axi_lite_port #(
    parameter ADDRESS_BITS = 9,
    parameter INDEX = ADDRESS_BITS - 2
) (
    input logic clk,
    input logic rst,
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
    output logic [INDEX-1:0] word,
    input logic [31:0] found,  // the value of the register `word`
    output logic [31:0] current,  // the same, a cycle later
    output logic act,
    output logic writes,  // a write, not a read
    output logic [31:0] value,  // of a write, with the bytes of `current` that it keeps
    output logic [31:0] written,  // the same, with zeros
    input logic refused
);
  localparam [1:0] OKAY = 2'b00;
  localparam [1:0] SLVERR = 2'b10;

  logic look, has_to, has_data, has_from, can_write, can_read;
  logic [INDEX-1:0] to, from;
  logic [31:0] data, mask;
  logic [3:0] strobes;

  assign s_awready = !has_to;
  assign s_wready = !has_data;
  assign s_arready = !has_from;
  assign can_write = has_to && has_data && !s_bvalid;
  assign can_read = has_from && !s_rvalid;
  assign mask = {{8{strobes[3]}}, {8{strobes[2]}}, {8{strobes[1]}}, {8{strobes[0]}}};
  assign written = data & mask;
  assign value = written | (current & ~mask);

  always_ff @(posedge clk) begin
    look <= 0;
    act <= look;
    if (look) current <= found;
    if (s_awvalid && s_awready) begin
      has_to <= 1;
      to <= s_awaddr[ADDRESS_BITS-1:2];
    end
    if (s_wvalid && s_wready) begin
      has_data <= 1;
      data <= s_wdata;
      strobes <= s_wstrb;
    end
    if (s_arvalid && s_arready) begin
      has_from <= 1;
      from <= s_araddr[ADDRESS_BITS-1:2];
    end
    if (s_bready) s_bvalid <= 0;
    if (s_rready) s_rvalid <= 0;
    // Reads and writes alternate if both wait.
    if (!look && !act && (can_write || can_read)) begin
      look <= 1;
      writes <= can_write && !(can_read && writes);
      word <= can_write && !(can_read && writes) ? to : from;
    end
    if (act && writes) begin
      has_to <= 0;
      has_data <= 0;
      s_bvalid <= 1;
      s_bresp <= refused ? SLVERR : OKAY;
    end
    if (act && !writes) begin
      has_from <= 0;
      s_rvalid <= 1;
      s_rdata <= current;
      s_rresp <= refused ? SLVERR : OKAY;
    end
    if (rst) begin
      has_to <= 0;
      has_data <= 0;
      has_from <= 0;
      look <= 0;
      act <= 0;
      writes <= 0;
      s_bvalid <= 0;
      s_rvalid <= 0;
    end
  end
endmodule
