// kintsugi_top for cocotb: the MAC's streams and AXI4 by their standard names.
`include "axi_bench.svh"
module ki_whole_bench #(
    parameter int CONTEXTS  = 4,
    parameter int ADDR_BITS = 12,
    localparam int DATA     = 256,  // width of memory's data
    localparam int PORTS    = 2,
    localparam int ID_BITS  = $clog2(CONTEXTS)
) (
    input  logic         clk,
    input  logic         rst_n,
    output logic         ready,
    input  logic [ 47:0] mac,
    input  logic [ 31:0] ip,
    input  logic [ 15:0] port,
    input  logic         rx_axis_tvalid,
    input  logic [ 63:0] rx_axis_tdata,
    input  logic [  7:0] rx_axis_tkeep,
    input  logic         rx_axis_tlast,
    input  logic         rx_axis_tuser,
    output logic         tx_axis_tvalid,
    input  logic         tx_axis_tready,
    output logic [ 63:0] tx_axis_tdata,
    output logic [  7:0] tx_axis_tkeep,
    output logic         tx_axis_tlast,
    output logic         tx_axis_tuser,
    output logic [639:0] counters_o,
    `AXI_PORT_DECL(0),
    `AXI_PORT_DECL(1)
);
  `AXI_VECTORS
  `AXI_WIRES(0)
  `AXI_WIRES(1)
  assign tx_axis_tuser = 1'b0;
  kintsugi_top #(
      .SLOTS(64), .CONTEXTS(CONTEXTS), .PORTS(PORTS), .ORDERS(2), .BUCKET_BITS(7), .CELL_BITS_0(9), .CELL_BITS_1(8), .CELL_BITS_2(7),
      .CELL_BITS_3(6), .ADDR_BITS(ADDR_BITS)
  ) u_top (
      .clk_i(clk), .rst_ni(rst_n), .mac_i(mac), .ip_i(ip), .port_i(port), .ready_o(ready), .rx_valid_i(rx_axis_tvalid),
      .rx_data_i(rx_axis_tdata), .rx_keep_i(rx_axis_tkeep), .rx_last_i(rx_axis_tlast), .rx_user_i(rx_axis_tuser),
      .tx_valid_o(tx_axis_tvalid), .tx_ready_i(tx_axis_tready), .tx_data_o(tx_axis_tdata), .tx_keep_o(tx_axis_tkeep),
      .tx_last_o(tx_axis_tlast), `AXI_CONNECT, .counters_o);
endmodule
