// kintsugi_core for cocotb: AXI-Stream and AXI4 by their standard names, small memories so that hot keys and recycled cells are common.
`include "axi_bench.svh"
module ki_core_bench #(
    parameter int CONTEXTS  = 4,
    parameter int ORDERS    = 2,
    parameter int ADDR_BITS = 12,
    localparam int DATA     = 256,  // width of memory's data, and of requests and answers
    localparam int PORTS    = 2,
    localparam int ID_BITS  = $clog2(CONTEXTS)
) (
    input  logic        clk,
    input  logic        rst_n,
    output logic        ready,
    input  logic        s_axis_tvalid,
    output logic        s_axis_tready,
    input  logic [DATA-1:0] s_axis_tdata,
    input  logic [DATA/8-1:0] s_axis_tkeep,
    input  logic        s_axis_tlast,
    input  logic [15:0] s_axis_tuser,
    output logic        m_axis_tvalid,
    input  logic        m_axis_tready,
    output logic [DATA-1:0] m_axis_tdata,
    output logic [DATA/8-1:0] m_axis_tkeep,
    output logic        m_axis_tlast,
    output logic [16:0] m_axis_tuser,
    `AXI_PORT_DECL(0),
    `AXI_PORT_DECL(1)
);
  `AXI_VECTORS
  `AXI_WIRES(0)
  `AXI_WIRES(1)
  kintsugi_core #(
      .CONTEXTS(CONTEXTS), .PORTS(PORTS), .ORDERS(ORDERS), .BUCKET_BITS(7), .CELL_BITS_0(9), .CELL_BITS_1(8), .CELL_BITS_2(7),
      .CELL_BITS_3(6), .DIR_BITS(5), .LEAF_BITS(5), .ADDR_BITS(ADDR_BITS)
  ) u_core (
      .clk_i(clk), .rst_ni(rst_n), .s_axis_tvalid_i(s_axis_tvalid), .s_axis_tready_o(s_axis_tready), .s_axis_tdata_i(s_axis_tdata),
      .s_axis_tkeep_i(s_axis_tkeep), .s_axis_tlast_i(s_axis_tlast), .s_axis_tuser_i(s_axis_tuser), .m_axis_tvalid_o(m_axis_tvalid),
      .m_axis_tready_i(m_axis_tready), .m_axis_tdata_o(m_axis_tdata), .m_axis_tkeep_o(m_axis_tkeep), .m_axis_tlast_o(m_axis_tlast),
      .m_axis_tuser_o(m_axis_tuser), `AXI_CONNECT, .net_counters_i(128'd0), .ready_o(ready));
endmodule
