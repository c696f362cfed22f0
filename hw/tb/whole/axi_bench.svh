// AXI4 ports by their standard names, one set a memory port, as cocotbext-axi looks for them; and the wires from the core's flat vectors. DATA is the width of the data.
`define AXI_PORT_DECL(n) \
    output logic m_axi``n``_arvalid, input logic m_axi``n``_arready, output logic [ID_BITS-1:0] m_axi``n``_arid, \
    output logic [ADDR_BITS+5:0] m_axi``n``_araddr, output logic [7:0] m_axi``n``_arlen, output logic [2:0] m_axi``n``_arsize, \
    output logic [1:0] m_axi``n``_arburst, \
    input logic m_axi``n``_rvalid, output logic m_axi``n``_rready, input logic [ID_BITS-1:0] m_axi``n``_rid, \
    input logic [DATA-1:0] m_axi``n``_rdata, input logic m_axi``n``_rlast, \
    output logic m_axi``n``_awvalid, input logic m_axi``n``_awready, output logic [ID_BITS-1:0] m_axi``n``_awid, \
    output logic [ADDR_BITS+5:0] m_axi``n``_awaddr, output logic [7:0] m_axi``n``_awlen, output logic [2:0] m_axi``n``_awsize, \
    output logic [1:0] m_axi``n``_awburst, \
    output logic m_axi``n``_wvalid, input logic m_axi``n``_wready, output logic [DATA-1:0] m_axi``n``_wdata, \
    output logic [DATA/8-1:0] m_axi``n``_wstrb, output logic m_axi``n``_wlast, \
    input logic m_axi``n``_bvalid, output logic m_axi``n``_bready, input logic [ID_BITS-1:0] m_axi``n``_bid

`define AXI_VECTORS \
  localparam int DataLog = $clog2(DATA / 8); \
  localparam logic [2:0] AxiSize = DataLog[2:0]; \
  logic [PORTS-1:0] arvalid, arready, rvalid, rready, rlast, awvalid, awready, wvalid, wready, wlast, bvalid, bready; \
  logic [PORTS*ID_BITS-1:0] arid, rid, awid, bid; \
  logic [PORTS*(ADDR_BITS+6)-1:0] araddr, awaddr; \
  logic [PORTS*8-1:0] arlen, awlen; \
  logic [PORTS*DATA/8-1:0] wstrb; \
  logic [PORTS*DATA-1:0] rdata, wdata;

`define AXI_WIRES(n) \
  assign m_axi``n``_arvalid = arvalid[n]; \
  assign arready[n] = m_axi``n``_arready; \
  assign m_axi``n``_arid = arid[n*ID_BITS+:ID_BITS]; \
  assign m_axi``n``_araddr = araddr[n*(ADDR_BITS+6)+:ADDR_BITS+6]; \
  assign m_axi``n``_arlen = arlen[n*8+:8]; \
  assign {m_axi``n``_arsize, m_axi``n``_arburst} = {AxiSize, 2'd1}; \
  assign rvalid[n] = m_axi``n``_rvalid; \
  assign m_axi``n``_rready = rready[n]; \
  assign rid[n*ID_BITS+:ID_BITS] = m_axi``n``_rid; \
  assign rdata[n*DATA+:DATA] = m_axi``n``_rdata; \
  assign rlast[n] = m_axi``n``_rlast; \
  assign m_axi``n``_awvalid = awvalid[n]; \
  assign awready[n] = m_axi``n``_awready; \
  assign m_axi``n``_awid = awid[n*ID_BITS+:ID_BITS]; \
  assign m_axi``n``_awaddr = awaddr[n*(ADDR_BITS+6)+:ADDR_BITS+6]; \
  assign m_axi``n``_awlen = awlen[n*8+:8]; \
  assign {m_axi``n``_awsize, m_axi``n``_awburst} = {AxiSize, 2'd1}; \
  assign m_axi``n``_wvalid = wvalid[n]; \
  assign wready[n] = m_axi``n``_wready; \
  assign m_axi``n``_wdata = wdata[n*DATA+:DATA]; \
  assign m_axi``n``_wstrb = wstrb[n*DATA/8+:DATA/8]; \
  assign m_axi``n``_wlast = wlast[n]; \
  assign bvalid[n] = m_axi``n``_bvalid; \
  assign m_axi``n``_bready = bready[n]; \
  assign bid[n*ID_BITS+:ID_BITS] = m_axi``n``_bid;

`define AXI_CONNECT \
      .m_axi_arvalid_o(arvalid), .m_axi_arready_i(arready), .m_axi_arid_o(arid), .m_axi_araddr_o(araddr), .m_axi_arlen_o(arlen), \
      .m_axi_rvalid_i(rvalid), .m_axi_rready_o(rready), .m_axi_rid_i(rid), .m_axi_rdata_i(rdata), .m_axi_rlast_i(rlast), \
      .m_axi_awvalid_o(awvalid), .m_axi_awready_i(awready), .m_axi_awid_o(awid), .m_axi_awaddr_o(awaddr), .m_axi_awlen_o(awlen), \
      .m_axi_wvalid_o(wvalid), .m_axi_wready_i(wready), .m_axi_wdata_o(wdata), .m_axi_wstrb_o(wstrb), .m_axi_wlast_o(wlast), \
      .m_axi_bvalid_i(bvalid), .m_axi_bready_o(bready), .m_axi_bid_i(bid)
