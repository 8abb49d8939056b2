// A wrapper of @CORE@ for block designs of Vivado: Verilog, complete AXI interfaces, reset active
// low.
module @NAME@_axi (
    (* X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF s_axi:m_axi, ASSOCIATED_RESET aresetn" *)
    input wire aclk,
    // The reset of the interconnect and of all its masters.
    input wire aresetn,
@PORTS@    (* X_INTERFACE_INFO = "xilinx.com:signal:interrupt:1.0 irq INTERRUPT" *)
    (* X_INTERFACE_PARAMETER = "SENSITIVITY LEVEL_HIGH" *)
    output wire irq,
    input wire [@ADDRESS_HIGH@:0] s_axi_awaddr,
    input wire [2:0] s_axi_awprot,
    input wire s_axi_awvalid,
    output wire s_axi_awready,
    input wire [31:0] s_axi_wdata,
    input wire [3:0] s_axi_wstrb,
    input wire s_axi_wvalid,
    output wire s_axi_wready,
    output wire [1:0] s_axi_bresp,
    output wire s_axi_bvalid,
    input wire s_axi_bready,
    input wire [@ADDRESS_HIGH@:0] s_axi_araddr,
    input wire [2:0] s_axi_arprot,
    input wire s_axi_arvalid,
    output wire s_axi_arready,
    output wire [31:0] s_axi_rdata,
    output wire [1:0] s_axi_rresp,
    output wire s_axi_rvalid,
    input wire s_axi_rready,
    output wire [39:0] m_axi_araddr,
    output wire [7:0] m_axi_arlen,
    output wire [2:0] m_axi_arsize,
    output wire [1:0] m_axi_arburst,
    output wire [3:0] m_axi_arcache,
    output wire [2:0] m_axi_arprot,
    output wire m_axi_arvalid,
    input wire m_axi_arready,
    input wire [@DATA_HIGH@:0] m_axi_rdata,
    input wire [1:0] m_axi_rresp,
    input wire m_axi_rlast,
    input wire m_axi_rvalid,
    output wire m_axi_rready,
    output wire [39:0] m_axi_awaddr,
    output wire [7:0] m_axi_awlen,
    output wire [2:0] m_axi_awsize,
    output wire [1:0] m_axi_awburst,
    output wire [3:0] m_axi_awcache,
    output wire [2:0] m_axi_awprot,
    output wire m_axi_awvalid,
    input wire m_axi_awready,
    output wire [@DATA_HIGH@:0] m_axi_wdata,
    output wire [@BYTE_HIGH@:0] m_axi_wstrb,
    output wire m_axi_wlast,
    output wire m_axi_wvalid,
    input wire m_axi_wready,
    input wire [1:0] m_axi_bresp,
    input wire m_axi_bvalid,
    output wire m_axi_bready
);
@SIZES@  localparam [2:0] SIZE = $clog2(BUS_BYTES);
@WIRES@
  assign m_axi_arsize = SIZE;
  assign m_axi_awsize = SIZE;
  // Bursts with incrementing addresses, to uncached memory.
  assign m_axi_arburst = 2'b01;
  assign m_axi_awburst = 2'b01;
  assign m_axi_arcache = 4'b0011;
  assign m_axi_awcache = 4'b0011;
  assign m_axi_arprot = 3'b000;
  assign m_axi_awprot = 3'b000;

  @CORE@ #(
@VALUES@
  ) core (
      .clk(aclk),
      .rst(!aresetn),
@CONNECTIONS@
      .irq(irq),
      .s_awvalid(s_axi_awvalid),
      .s_awready(s_axi_awready),
      .s_awaddr(s_axi_awaddr),
      .s_wvalid(s_axi_wvalid),
      .s_wready(s_axi_wready),
      .s_wdata(s_axi_wdata),
      .s_wstrb(s_axi_wstrb),
      .s_bresp(s_axi_bresp),
      .s_rresp(s_axi_rresp),
      .s_bvalid(s_axi_bvalid),
      .s_bready(s_axi_bready),
      .s_arvalid(s_axi_arvalid),
      .s_arready(s_axi_arready),
      .s_araddr(s_axi_araddr),
      .s_rvalid(s_axi_rvalid),
      .s_rready(s_axi_rready),
      .s_rdata(s_axi_rdata),
      .m_arvalid(m_axi_arvalid),
      .m_arready(m_axi_arready),
      .m_araddr(m_axi_araddr),
      .m_arlen(m_axi_arlen),
      .m_rvalid(m_axi_rvalid),
      .m_rready(m_axi_rready),
      .m_rdata(m_axi_rdata),
      .m_rresp(m_axi_rresp),
      .m_awvalid(m_axi_awvalid),
      .m_awready(m_axi_awready),
      .m_awaddr(m_axi_awaddr),
      .m_awlen(m_axi_awlen),
      .m_wvalid(m_axi_wvalid),
      .m_wready(m_axi_wready),
      .m_wdata(m_axi_wdata),
      .m_wstrb(m_axi_wstrb),
      .m_wlast(m_axi_wlast),
      .m_bvalid(m_axi_bvalid),
      .m_bresp(m_axi_bresp),
      .m_bready(m_axi_bready)
  );
@INSTANCES@endmodule
