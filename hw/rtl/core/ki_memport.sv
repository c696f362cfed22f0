// One AXI4 master port, shared by some contexts. Reads: the pointers of lookups that hit enter a queue by themselves (one a clock; each context
// has at most one read on its way, so the queue cannot overflow), others ask. The context is the AXI id, so any number of bursts is under
// way and they return in any order. Writes: one context at a time, address and data together; acknowledgements are counted by the context.
module ki_memport #(
    parameter int N         = 8,   // contexts of the whole core (ids)
    parameter int ID_BITS   = 3,
    parameter int ADDR_BITS = 20,
    parameter int PTR_BITS  = ADDR_BITS + 6
) (
    input  logic                     clk_i,
    input  logic                     rst_ni,
    // reads
    input  logic                     hit_valid_i,
    input  logic [      ID_BITS-1:0] hit_id_i,
    input  logic [     PTR_BITS-1:0] hit_ptr_i,
    input  logic [            N-1:0] rd_valid_i,
    output logic [            N-1:0] rd_ready_o,
    input  logic [   N*PTR_BITS-1:0] rd_ptr_i,
    output logic [            N-1:0] r_valid_o,
    output logic [            255:0] r_data_o,
    output logic                     r_last_o,
    // writes
    input  logic [            N-1:0] w_valid_i,
    output logic [            N-1:0] w_ready_o,
    input  logic [N*(ADDR_BITS+1)-1:0] w_addr_i,  // in beats of 32 bytes
    input  logic [          N*4-1:0] w_len_i,    // beats - 1
    input  logic [        N*256-1:0] w_data_i,
    input  logic [         N*32-1:0] w_strb_i,
    input  logic [            N-1:0] w_last_i,
    output logic [            N-1:0] b_valid_o,
    // AXI4
    output logic                     m_arvalid_o,
    input  logic                     m_arready_i,
    output logic [      ID_BITS-1:0] m_arid_o,
    output logic [    ADDR_BITS+5:0] m_araddr_o,
    output logic [              7:0] m_arlen_o,
    input  logic                     m_rvalid_i,
    output logic                     m_rready_o,
    input  logic [      ID_BITS-1:0] m_rid_i,
    input  logic [            255:0] m_rdata_i,
    input  logic                     m_rlast_i,
    output logic                     m_awvalid_o,
    input  logic                     m_awready_i,
    output logic [      ID_BITS-1:0] m_awid_o,
    output logic [    ADDR_BITS+5:0] m_awaddr_o,
    output logic [              7:0] m_awlen_o,
    output logic                     m_wvalid_o,
    input  logic                     m_wready_i,
    output logic [            255:0] m_wdata_o,
    output logic [             31:0] m_wstrb_o,
    output logic                     m_wlast_o,
    input  logic                     m_bvalid_i,
    output logic                     m_bready_o,
    input  logic [      ID_BITS-1:0] m_bid_i
);
  // ---- reads -----------------------------------------------------------------------------------------------------
  localparam int QB = ID_BITS + 1;
  localparam int W = ID_BITS + PTR_BITS;
  logic [W-1:0] q[2**ID_BITS];
  logic [QB-1:0] wr_q, rd_q;
  logic q_empty, push;
  logic [W-1:0] push_data;
  logic [N-1:0] rmask_q, rpick;
  ki_pick #(.N(N)) u_rpick (.req_i(rd_valid_i), .mask_i(rmask_q), .pick_o(rpick));
  assign rd_ready_o = hit_valid_i ? '0 : rpick;
  always_comb begin
    push_data = {hit_id_i, hit_ptr_i};
    if (!hit_valid_i) begin
      push_data = '0;
      for (int i = 0; i < N; i++) if (rpick[i]) push_data = {i[ID_BITS-1:0], rd_ptr_i[i*PTR_BITS+:PTR_BITS]};
    end
  end
  assign push = hit_valid_i || |rpick;
  // past an empty queue, so a hit is on the port in the clock of the index's answer; what is not taken there waits in the queue
  assign q_empty = wr_q == rd_q;
  assign m_arvalid_o = push || !q_empty;
  logic [W-1:0] next;
  assign next = q_empty ? push_data : q[rd_q[ID_BITS-1:0]];
  assign {m_arid_o, m_arlen_o, m_araddr_o} = {next[W-1:PTR_BITS], 4'd0, next[PTR_BITS-1-:4], next[ADDR_BITS-1:0], 6'd0};
  always_ff @(posedge clk_i) if (push) q[wr_q[ID_BITS-1:0]] <= push_data;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      wr_q <= '0;
      rd_q <= '0;
      rmask_q <= '0;
    end else begin
      if (push) wr_q <= wr_q + 1'b1;
      if (m_arvalid_o && m_arready_i) rd_q <= rd_q + 1'b1;
      if (|rd_ready_o) rmask_q <= ~(rd_ready_o | (rd_ready_o - 1'b1));
    end

  assign m_rready_o = 1'b1;
  always_comb for (int i = 0; i < N; i++) r_valid_o[i] = m_rvalid_i && m_rid_i == i[ID_BITS-1:0];
  assign {r_data_o, r_last_o} = {m_rdata_i, m_rlast_i};  // no register: a controller's R channel comes from one

  // ---- writes ----------------------------------------------------------------------------------------------------
  logic [N-1:0] wmask_q, wpick, wown_q, wgrant;
  logic wlock_q, aw_room, w_room, wgo;
  ki_pick #(.N(N)) u_wpick (.req_i(w_valid_i), .mask_i(wmask_q), .pick_o(wpick));
  assign aw_room = !m_awvalid_o || m_awready_i;
  assign w_room = !m_wvalid_o || m_wready_i;
  assign wgrant = wlock_q ? wown_q : aw_room ? wpick : '0;
  assign w_ready_o = w_room ? wgrant : '0;
  assign wgo = w_room && (wlock_q ? |(wown_q & w_valid_i) : aw_room && |w_valid_i);
  logic [255:0] wdata;
  logic [31:0] wstrb;
  logic wlast;
  logic [ADDR_BITS:0] waddr;
  logic [3:0] wlen;
  logic [ID_BITS-1:0] wid;
  always_comb begin
    wdata = '0;
    wstrb = '0;
    wlast = 1'b0;
    waddr = '0;
    wlen  = '0;
    wid   = '0;
    for (int i = 0; i < N; i++)
      if (wgrant[i]) begin
        wdata = wdata | w_data_i[i*256+:256];
        wstrb = wstrb | w_strb_i[i*32+:32];
        wlast = wlast | w_last_i[i];
        waddr = waddr | w_addr_i[i*(ADDR_BITS+1)+:ADDR_BITS+1];
        wlen  = wlen | w_len_i[i*4+:4];
        wid   = wid | i[ID_BITS-1:0];
      end
  end
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      m_awvalid_o <= 1'b0;
      m_wvalid_o <= 1'b0;
      wlock_q <= 1'b0;
      wown_q <= '0;
      wmask_q <= '0;
    end else begin
      if (m_awready_i) m_awvalid_o <= 1'b0;
      if (wgo && !wlock_q) m_awvalid_o <= 1'b1;
      if (w_room) m_wvalid_o <= wgo;
      if (wgo) begin
        wlock_q <= !wlast;
        wown_q  <= wgrant;
        wmask_q <= ~(wgrant | (wgrant - 1'b1));
      end
    end
  always_ff @(posedge clk_i) begin
    // without a beat too, so that only the port's room enables this many registers
    if (aw_room && !wlock_q) {m_awid_o, m_awlen_o, m_awaddr_o} <= {wid, 4'd0, wlen, waddr, 5'd0};
    if (w_room) {m_wdata_o, m_wstrb_o, m_wlast_o} <= {wdata, wstrb, wlast};
  end

  assign m_bready_o = 1'b1;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) b_valid_o <= '0;
    else for (int i = 0; i < N; i++) b_valid_o[i] <= m_bvalid_i && m_bid_i == i[ID_BITS-1:0];
endmodule
