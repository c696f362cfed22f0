// The appliance: Ethernet frames in, Ethernet frames out, memory behind AXI4.
//
//              +----------------------- kintsugi_top -----------------------+
//   MAC <----> | ki_net: ARP, IPv4, ICMP, UDP <---> kintsugi_core: engines  | <====> memory
//    64 bit    |   return addresses, checksums        index, slab allocator |  AXI4
//              +------------------------------------------------------------+
//
// One clock, 156.25 MHz nominal: 64 bits of it are 10 Gbit/s. `ready_o` says that the index has been cleared after reset;
// requests that come before wait in the receive buffer.
module kintsugi_top #(
    parameter int SLOTS       = 256,           // requests on their way
    parameter int CONTEXTS    = 8,
    parameter int PORTS       = 2,
    parameter int ORDERS      = 2,
    parameter int BUCKET_BITS = 12,
    parameter int CELL_BITS_0 = 13,
    parameter int CELL_BITS_1 = 12,
    parameter int CELL_BITS_2 = 11,
    parameter int CELL_BITS_3 = 10,
    parameter int ADDR_BITS   = 16,
    parameter int ID_BITS     = CONTEXTS > 1 ? $clog2(CONTEXTS) : 1
) (
    input  logic                           clk_i,
    input  logic                           rst_ni,
    // who we are; the first byte on the wire is the highest
    input  logic [                   47:0] mac_i,
    input  logic [                   31:0] ip_i,
    input  logic [                   15:0] port_i,
    output logic                           ready_o,
    // frames from the MAC, without frame check sequence; never held up
    input  logic                           rx_valid_i,
    input  logic [                   63:0] rx_data_i,
    input  logic [                    7:0] rx_keep_i,
    input  logic                           rx_last_i,
    input  logic                           rx_user_i,
    // frames to the MAC
    output logic                           tx_valid_o,
    input  logic                           tx_ready_i,
    output logic [                   63:0] tx_data_o,
    output logic [                    7:0] tx_keep_o,
    output logic                           tx_last_o,
    // memory
    output logic [              PORTS-1:0] m_axi_arvalid_o,
    input  logic [              PORTS-1:0] m_axi_arready_i,
    output logic [      PORTS*ID_BITS-1:0] m_axi_arid_o,
    output logic [PORTS*(ADDR_BITS+6)-1:0] m_axi_araddr_o,
    output logic [            PORTS*8-1:0] m_axi_arlen_o,
    input  logic [              PORTS-1:0] m_axi_rvalid_i,
    output logic [              PORTS-1:0] m_axi_rready_o,
    input  logic [      PORTS*ID_BITS-1:0] m_axi_rid_i,
    input  logic [          PORTS*256-1:0] m_axi_rdata_i,
    input  logic [              PORTS-1:0] m_axi_rlast_i,
    output logic [              PORTS-1:0] m_axi_awvalid_o,
    input  logic [              PORTS-1:0] m_axi_awready_i,
    output logic [      PORTS*ID_BITS-1:0] m_axi_awid_o,
    output logic [PORTS*(ADDR_BITS+6)-1:0] m_axi_awaddr_o,
    output logic [            PORTS*8-1:0] m_axi_awlen_o,
    output logic [              PORTS-1:0] m_axi_wvalid_o,
    input  logic [              PORTS-1:0] m_axi_wready_i,
    output logic [          PORTS*256-1:0] m_axi_wdata_o,
    output logic [           PORTS*32-1:0] m_axi_wstrb_o,
    output logic [              PORTS-1:0] m_axi_wlast_o,
    input  logic [              PORTS-1:0] m_axi_bvalid_i,
    output logic [              PORTS-1:0] m_axi_bready_o,
    input  logic [      PORTS*ID_BITS-1:0] m_axi_bid_i,
    // counters of the network side, as ki_net has them
    output logic [                  639:0] counters_o
);
  logic req_valid, req_ready, req_last, ans_valid, ans_ready, ans_last;
  logic [255:0] req_data, ans_data;
  logic [3:0] req_words;
  logic [15:0] req_tag;
  logic [16:0] ans_tag;
  logic [31:0] ans_keep;

  // What STATS counts as dropped below the datagram: broken, IPv4, UDP or ICMP, no room.
  logic [31:0] below_q;
  always_ff @(posedge clk_i) begin
    below_q <= counters_o[5*64+:32] + counters_o[6*64+:32] + counters_o[7*64+:32] + counters_o[9*64+:32];
  end

  ki_net #(
      .SLOTS(SLOTS)
  ) u_net (
      .clk_i,
      .rst_ni,
      .mac_i,
      .ip_i,
      .port_i,
      .rx_valid_i,
      .rx_data_i,
      .rx_keep_i,
      .rx_last_i,
      .rx_user_i,
      .tx_valid_o,
      .tx_ready_i,
      .tx_data_o,
      .tx_keep_o,
      .tx_last_o,
      .core_valid_o(req_valid),
      .core_ready_i(req_ready),
      .core_data_o (req_data),
      .core_keep_o (req_words),
      .core_last_o (req_last),
      .core_tag_o  (req_tag),
      .core_valid_i(ans_valid),
      .core_ready_o(ans_ready),
      .core_data_i (ans_data),
      .core_keep_i ({ans_keep[24], ans_keep[16], ans_keep[8], ans_keep[0]}),
      .core_last_i (ans_last),
      .core_tag_i  (ans_tag),
      .counters_o
  );

  kintsugi_core #(
      .CONTEXTS   (CONTEXTS),
      .PORTS      (PORTS),
      .ORDERS     (ORDERS),
      .BUCKET_BITS(BUCKET_BITS),
      .CELL_BITS_0(CELL_BITS_0),
      .CELL_BITS_1(CELL_BITS_1),
      .CELL_BITS_2(CELL_BITS_2),
      .CELL_BITS_3(CELL_BITS_3),
      .ADDR_BITS  (ADDR_BITS)
  ) u_core (
      .clk_i,
      .rst_ni,
      .s_axis_tvalid_i(req_valid),
      .s_axis_tready_o(req_ready),
      .s_axis_tdata_i (req_data),
      .s_axis_tkeep_i ({{8{req_words[3]}}, {8{req_words[2]}}, {8{req_words[1]}}, {8{req_words[0]}}}),
      .s_axis_tlast_i (req_last),
      .s_axis_tuser_i (req_tag),
      .m_axis_tvalid_o(ans_valid),
      .m_axis_tready_i(ans_ready),
      .m_axis_tdata_o (ans_data),
      .m_axis_tkeep_o (ans_keep),
      .m_axis_tlast_o (ans_last),
      .m_axis_tuser_o (ans_tag),
      .m_axi_arvalid_o,
      .m_axi_arready_i,
      .m_axi_arid_o,
      .m_axi_araddr_o,
      .m_axi_arlen_o,
      .m_axi_rvalid_i,
      .m_axi_rready_o,
      .m_axi_rid_i,
      .m_axi_rdata_i,
      .m_axi_rlast_i,
      .m_axi_awvalid_o,
      .m_axi_awready_i,
      .m_axi_awid_o,
      .m_axi_awaddr_o,
      .m_axi_awlen_o,
      .m_axi_wvalid_o,
      .m_axi_wready_i,
      .m_axi_wdata_o,
      .m_axi_wstrb_o,
      .m_axi_wlast_o,
      .m_axi_bvalid_i,
      .m_axi_bready_o,
      .m_axi_bid_i,
      .net_counters_i ({counters_o[4*64+:32], counters_o[2*64+:32], counters_o[3*64+:32], below_q}),
      .ready_o
  );

`ifdef VERILATOR  // Icarus has no named immediate assertions
  always_ff @(posedge clk_i)
    if (rst_ni) begin
      // The network side has dropped what is no request, so the core has no cause to.
      a_core_drops_nothing : assert (!ans_valid || !ans_tag[16]);
      a_answers_are_whole_words : assert (!ans_valid || (ans_keep[0] && (ans_last || &ans_keep)));
    end
`endif
endmodule
