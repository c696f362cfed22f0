// The engine: requests of spec/wire.md in, answers out, cells in memory behind AXI4.
//
//                      +-------------------- index pipeline (1 op / clock) --------------------+
//                      |  hit: the read of the cell starts by itself                            |
//   AXI-Stream --> parse, --> dispatch --> context 0 .. N-1 --> merge --> AXI-Stream             v
//   256 bit        2 CRCs     one lock     (type engines)       whole                memory port 0 .. P-1 (AXI4)
//                             a key          |        |         packets
//                                     slab allocator  order units 0 .. O-1
//
// Dispatch is the crossbar's other half. The first lookup of a request enters the index in the clock in which it is given to a
// free context. A request whose key hash is held goes to that context's queue; if that is full, or the context's types do not fit, dispatch
// waits (in order: nothing overtakes on the way in). So one key's requests run one after the other, and all others at the same time.
//
// Every request accepted on s_axis has one answer on m_axis with the same tag: a packet, or for what is no request one
// beat with m_axis_tkeep = 0 and m_axis_tuser[16] set.
module kintsugi_core #(
    parameter int CONTEXTS     = 8,
    parameter int PORTS        = 2,             // AXI4 masters; context i uses port i mod PORTS
    parameter int ORDERS       = 4,             // order units for sorted sets
    parameter logic [5*CONTEXTS-1:0] TYPES = {5 * CONTEXTS{1'b1}},  // per context: SORTED SET, SET, HASH, LIST, STRING
    parameter int BUCKET_BITS  = 12,
    parameter int WAYS         = 4,
    parameter int FP_BITS      = 16,
    parameter int CELL_BITS_0  = 13,            // 2**n cells of 64, 128, 256, 512 bytes
    parameter int CELL_BITS_1  = 12,
    parameter int CELL_BITS_2  = 11,
    parameter int CELL_BITS_3  = 10,
    parameter int DIR_BITS     = 7,             // sorted sets (all units together)
    parameter int LEAF_BITS    = 7,             // rows of 16 members (a unit)
    parameter int ADDR_BITS    = 16,            // memory: 2**n cells of 64 bytes
    parameter int ID_BITS      = CONTEXTS > 1 ? $clog2(CONTEXTS) : 1
) (
    input  logic                       clk_i,
    input  logic                       rst_ni,
    input  logic                       s_axis_tvalid_i,
    output logic                       s_axis_tready_o,
    input  logic [              255:0] s_axis_tdata_i,
    input  logic [               31:0] s_axis_tkeep_i,
    input  logic                       s_axis_tlast_i,
    input  logic [               15:0] s_axis_tuser_i,
    output logic                       m_axis_tvalid_o,
    input  logic                       m_axis_tready_i,
    output logic [              255:0] m_axis_tdata_o,
    output logic [               31:0] m_axis_tkeep_o,
    output logic                       m_axis_tlast_o,
    output logic [               16:0] m_axis_tuser_o,
    // AXI4, port by port: 256-bit data, INCR bursts of up to 16 beats, addresses in bytes
    output logic [          PORTS-1:0] m_axi_arvalid_o,
    input  logic [          PORTS-1:0] m_axi_arready_i,
    output logic [  PORTS*ID_BITS-1:0] m_axi_arid_o,
    output logic [PORTS*(ADDR_BITS+6)-1:0] m_axi_araddr_o,
    output logic [        PORTS*8-1:0] m_axi_arlen_o,
    input  logic [          PORTS-1:0] m_axi_rvalid_i,
    output logic [          PORTS-1:0] m_axi_rready_o,
    input  logic [  PORTS*ID_BITS-1:0] m_axi_rid_i,
    input  logic [      PORTS*256-1:0] m_axi_rdata_i,
    input  logic [          PORTS-1:0] m_axi_rlast_i,
    output logic [          PORTS-1:0] m_axi_awvalid_o,
    input  logic [          PORTS-1:0] m_axi_awready_i,
    output logic [  PORTS*ID_BITS-1:0] m_axi_awid_o,
    output logic [PORTS*(ADDR_BITS+6)-1:0] m_axi_awaddr_o,
    output logic [        PORTS*8-1:0] m_axi_awlen_o,
    output logic [          PORTS-1:0] m_axi_wvalid_o,
    input  logic [          PORTS-1:0] m_axi_wready_i,
    output logic [      PORTS*256-1:0] m_axi_wdata_o,
    output logic [       PORTS*32-1:0] m_axi_wstrb_o,
    output logic [          PORTS-1:0] m_axi_wlast_o,
    input  logic [          PORTS-1:0] m_axi_bvalid_i,
    output logic [          PORTS-1:0] m_axi_bready_o,
    input  logic [  PORTS*ID_BITS-1:0] m_axi_bid_i,
    // counters of the network side for STATS: frames dropped, ARP answers, ICMP answers, datagrams dropped
    input  logic [         4*32-1:0] net_counters_i,
    output logic                       ready_o        // the index is cleared
);
  `include "ki_defs.svh"
  localparam int N = CONTEXTS;
  localparam int PtrBits = ADDR_BITS + 6;
  localparam int OB = ORDERS > 1 ? $clog2(ORDERS) : 0;
  localparam int Units = 2 ** CELL_BITS_0 + 2 * 2 ** CELL_BITS_1 + 4 * 2 ** CELL_BITS_2 + 8 * 2 ** CELL_BITS_3;

  initial begin
    if (Units > 2 ** ADDR_BITS) $fatal(1, "the cells do not fit the memory");
    if (PtrBits > 32) $fatal(1, "a pointer does not fit its link");
    if (PORTS < 1 || PORTS > N) $fatal(1, "PORTS must be 1 to CONTEXTS");
    if (ORDERS != 2 ** OB) $fatal(1, "ORDERS must be a power of two");
    if (CONTEXTS > 2 ** ID_BITS) $fatal(1, "ID_BITS is too small");
  end

  // ---- parse -----------------------------------------------------------------------------------------------------
  logic p_valid, p_take, p_drop;
  logic [7:0] p_op, p_err;
  logic [6:0] p_klen, p_slen;
  logic [8:0] p_vlen;
  logic [15:0] p_id, p_tag;
  logic [31:0] p_hk, p_hi;
  logic [3:0] copy_q;
  logic [255:0] copy_data;
  ki_parse u_parse (
      .clk_i, .rst_ni, .s_tvalid_i(s_axis_tvalid_i), .s_tready_o(s_axis_tready_o), .s_tdata_i(s_axis_tdata_i),
      .s_tkeep_i(s_axis_tkeep_i), .s_tlast_i(s_axis_tlast_i), .s_tuser_i(s_axis_tuser_i), .valid_o(p_valid), .take_i(p_take),
      .op_o(p_op), .klen_o(p_klen), .slen_o(p_slen), .vlen_o(p_vlen), .id_o(p_id), .tag_o(p_tag), .hk_o(p_hk), .hi_o(p_hi),
      .err_o(p_err), .drop_o(p_drop), .body_addr_i(copy_q), .body_data_o(copy_data));

  // ---- dispatch --------------------------------------------------------------------------------------------------
  logic [N-1:0] busy, full, can, held, avail, target, copy_to_q;
  logic [N-1:0] keyed_q;  // has a lock; what has no key holds none
  logic [32*N-1:0] lock_q;
  logic p_plain, p_fresh, ix_ready, copying_q;
  logic [3:0] copy_last_q;
  logic [5:0] p_words, p_last;  // words of the body; the last word of its cell
  assign p_plain = p_drop || p_err != StOk || p_op == OpPing || p_op == OpStats;  // no key: no lock, no lookup
  assign p_words = {2'd0, p_klen[6:3]} + {5'd0, |p_klen[2:0]} + {2'd0, p_slen[6:3]} + {5'd0, |p_slen[2:0]} + p_vlen[8:3] +
      {5'd0, |p_vlen[2:0]};
  assign p_last = p_words + 6'd1;
  always_comb
    for (int i = 0; i < N; i++) begin
      can[i]  = p_plain || TYPES[5*i+{29'd0, p_op[6:4]}];
`ifdef MUTANT_OVERTAKE
      held[i] = busy[i] && keyed_q[i] && lock_q[i*32+:32] == p_hk && !p_plain && !full[i];
`elsif MUTANT_KEYLESS
      held[i] = busy[i] && lock_q[i*32+:32] == p_hk && !p_plain;
`else
      held[i] = busy[i] && keyed_q[i] && lock_q[i*32+:32] == p_hk && !p_plain;
`endif
    end
  assign avail = ~busy & can;
  // a held key's context, else the first free one
`ifdef MUTANT_LOSE
  assign target = |held ? held & can : avail & (~avail + 1'b1);
`elsif MUTANT_TWICE
  assign target = |held ? held & can & ~full : avail;
`else
  assign target = |held ? held & can & ~full : avail & (~avail + 1'b1);
`endif
  assign p_fresh = !(|held) && !p_plain;
  assign p_take = p_valid && |target && !copying_q && (!p_fresh || ix_ready);

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      copying_q <= 1'b0;
      keyed_q <= '0;
      lock_q <= '0;
      copy_last_q <= '0;
      copy_q <= '0;
      copy_to_q <= '0;
    end else begin
      if (p_take) begin
        copying_q <= p_words != 0 && !(p_drop || p_err != StOk);
        copy_last_q <= p_last[5:2];
        copy_q <= '0;
        copy_to_q <= target;
        for (int i = 0; i < N; i++)
          if (target[i]) begin
            keyed_q[i] <= !p_plain;
            lock_q[i*32+:32] <= p_hk;
          end
      end else if (copying_q) begin
        copy_q <= copy_q + 4'd1;
        copying_q <= copy_q != copy_last_q;
      end
    end

  logic [ID_BITS-1:0] target_id;
  always_comb begin
    target_id = '0;
    for (int i = 0; i < N; i++) if (target[i]) target_id = target_id | i[ID_BITS-1:0];
  end

  // ---- contexts --------------------------------------------------------------------------------------------------
  logic [N-1:0] cx_v, cx_rdy, cx_item;
  logic [N*2-1:0] cx_op;
  logic [N*32-1:0] cx_hash;
  logic [N*3-1:0] cx_type;
  logic [N*PtrBits-1:0] cx_old, cx_new;
  logic [N*WAYS-1:0] cx_skip;
  logic rv, rhit;
  logic [1:0] rop;
  logic [ID_BITS-1:0] rid;
  logic [WAYS-1:0] rway;
  logic [2:0] rtype;
  logic [PtrBits-1:0] rptr;

  logic [N-1:0] al_v, al_rdy, fr_v, fr_rdy;
  logic [N*6-1:0] al_words;
  logic [N*PtrBits-1:0] fr_ptr;
  logic al_ok;
  logic [ADDR_BITS-1:0] al_addr;

  logic [N-1:0] rd_v, rd_rdy, c_rv, w_v, w_rdy, w_last, b_v;
  logic [N*PtrBits-1:0] rd_ptr;
  logic [N*(ADDR_BITS+1)-1:0] w_addr;
  logic [N*4-1:0] w_len;
  logic [N*256-1:0] w_data;
  logic [N*32-1:0] w_strb;
  logic [PORTS*256-1:0] pr_data;
  logic [PORTS-1:0] pr_last;

  logic [N-1:0] or_v, or_rdy, or_new;
  logic [N*2-1:0] or_op;
  logic [N*DIR_BITS-1:0] or_dir;
  logic [N*64-1:0] or_score;
  logic [N*5-1:0] or_mlen;
  logic [N*128-1:0] or_member;
  logic [N*PtrBits-1:0] or_ptr;
  logic [N-1:0] orr_v, orr_ok, orr_full, orr_empty;
  logic [N*DIR_BITS-1:0] orr_dir;
  logic [N*PtrBits-1:0] orr_first, orr_ptr;
  logic [N*64-1:0] orr_score;
  logic [N*5-1:0] orr_mlen;
  logic [N*128-1:0] orr_member;

  logic [N*2-1:0] st_idx;
  logic [16*64-1:0] stats;
  localparam int MW = 256 + 4 + 17 + 8;
  logic [N-1:0] m_req, m_v, m_rdy, m_last;
  logic [N*MW-1:0] m_bus;

  for (genvar i = 0; i < N; i++) begin : g_context
    ki_context #(
        .ADDR_BITS(ADDR_BITS), .WAYS(WAYS), .DIR_BITS(DIR_BITS), .TYPES(TYPES[5*i+:5])
    ) u_context (
        .clk_i, .rst_ni,
        .desc_valid_i(p_take && target[i]),
        .desc_i({p_op, p_klen, p_slen, p_vlen, p_id, p_tag, p_hk, p_hi, p_err, p_drop, p_fresh}),
        .desc_full_o(full[i]), .body_valid_i(copying_q && copy_to_q[i]), .body_idx_i(copy_q), .body_data_i(copy_data),
        .busy_o(busy[i]),
        .ix_valid_o(cx_v[i]), .ix_ready_i(cx_rdy[i]), .ix_op_o(cx_op[i*2+:2]), .ix_hash_o(cx_hash[i*32+:32]),
        .ix_item_o(cx_item[i]), .ix_type_o(cx_type[i*3+:3]), .ix_old_o(cx_old[i*PtrBits+:PtrBits]),
        .ix_new_o(cx_new[i*PtrBits+:PtrBits]), .ix_skip_o(cx_skip[i*WAYS+:WAYS]),
        .ixr_valid_i(rv && rid == i[ID_BITS-1:0]), .ixr_op_i(rop), .ixr_hit_i(rhit), .ixr_way_i(rway), .ixr_type_i(rtype),
        .ixr_ptr_i(rptr),
        .al_valid_o(al_v[i]), .al_words_o(al_words[i*6+:6]), .al_ready_i(al_rdy[i]), .al_ok_i(al_ok), .al_addr_i(al_addr),
        .fr_valid_o(fr_v[i]), .fr_ptr_o(fr_ptr[i*PtrBits+:PtrBits]), .fr_ready_i(fr_rdy[i]),
        .rd_valid_o(rd_v[i]), .rd_ptr_o(rd_ptr[i*PtrBits+:PtrBits]), .rd_ready_i(rd_rdy[i]), .r_valid_i(c_rv[i]),
        .r_data_i(pr_data[(i%PORTS)*256+:256]), .r_last_i(pr_last[i%PORTS]),
        .w_valid_o(w_v[i]), .w_ready_i(w_rdy[i]), .w_addr_o(w_addr[i*(ADDR_BITS+1)+:ADDR_BITS+1]), .w_len_o(w_len[i*4+:4]),
        .w_data_o(w_data[i*256+:256]), .w_strb_o(w_strb[i*32+:32]), .w_last_o(w_last[i]), .b_valid_i(b_v[i]),
        .or_valid_o(or_v[i]), .or_ready_i(or_rdy[i]), .or_op_o(or_op[i*2+:2]), .or_new_o(or_new[i]),
        .or_dir_o(or_dir[i*DIR_BITS+:DIR_BITS]), .or_score_o(or_score[i*64+:64]), .or_mlen_o(or_mlen[i*5+:5]),
        .or_member_o(or_member[i*128+:128]), .or_ptr_o(or_ptr[i*PtrBits+:PtrBits]),
        .orr_valid_i(orr_v[i]), .orr_ok_i(orr_ok[i]), .orr_full_i(orr_full[i]), .orr_empty_i(orr_empty[i]),
        .orr_dir_i(orr_dir[i*DIR_BITS+:DIR_BITS]), .orr_first_i(orr_first[i*PtrBits+:PtrBits]),
        .orr_score_i(orr_score[i*64+:64]), .orr_mlen_i(orr_mlen[i*5+:5]), .orr_member_i(orr_member[i*128+:128]),
        .orr_ptr_i(orr_ptr[i*PtrBits+:PtrBits]),
        .st_idx_o(st_idx[i*2+:2]), .st_data_i(stats[{st_idx[i*2+:2], 8'd0}+:256]),
        .m_req_o(m_req[i]), .m_valid_o(m_v[i]), .m_ready_i(m_rdy[i]), .m_data_o(m_bus[i*MW+:256]),
        .m_keep_o(m_bus[i*MW+256+:4]), .m_last_o(m_last[i]),
        .m_user_o(m_bus[i*MW+260+:17]), .m_status_o(m_bus[i*MW+277+:8]));
  end

  // ---- the index, shared: dispatch first, then the contexts in turn ----------------------------------------------
  logic [N-1:0] ix_mask_q, ix_pick;
  logic ix_disp, ix_valid, ix_item;
  logic [1:0] ix_op;
  logic [ID_BITS-1:0] ix_id;
  logic [31:0] ix_hash;
  logic [2:0] ix_type;
  logic [PtrBits-1:0] ix_old, ix_new;
  logic [WAYS-1:0] ix_skip;
  ki_pick #(.N(N)) u_ix_pick (.req_i(cx_v), .mask_i(ix_mask_q), .pick_o(ix_pick));
  assign ix_disp = p_take && p_fresh;
  assign cx_rdy = ix_disp || !ix_ready ? '0 : ix_pick;
  always_comb begin
    ix_valid = ix_disp || |ix_pick;
    ix_op = IxLookup;
    ix_id = target_id;
    ix_item = p_slen != 0;
    ix_hash = ix_item ? p_hi : p_hk;
    ix_type = '0;
    ix_old = '0;
    ix_new = '0;
    ix_skip = '0;
    if (!ix_disp) begin
      ix_id = '0;
      ix_hash = '0;
      ix_item = 1'b0;
      for (int i = 0; i < N; i++)
        if (ix_pick[i]) begin
          ix_op   = ix_op | cx_op[i*2+:2];
          ix_id   = ix_id | i[ID_BITS-1:0];
          ix_item = ix_item | cx_item[i];
          ix_hash = ix_hash | cx_hash[i*32+:32];
          ix_type = ix_type | cx_type[i*3+:3];
          ix_old  = ix_old | cx_old[i*PtrBits+:PtrBits];
          ix_new  = ix_new | cx_new[i*PtrBits+:PtrBits];
          ix_skip = ix_skip | cx_skip[i*WAYS+:WAYS];
        end
    end
  end
  ki_index #(.BUCKET_BITS(BUCKET_BITS), .WAYS(WAYS), .FP_BITS(FP_BITS), .PTR_BITS(PtrBits), .ID_BITS(ID_BITS)) u_index (
      .clk_i, .rst_ni, .req_valid_i(ix_valid), .req_ready_o(ix_ready), .req_op_i(ix_op), .req_id_i(ix_id), .req_hash_i(ix_hash),
      .req_item_i(ix_item), .req_type_i(ix_type), .req_old_i(ix_old), .req_new_i(ix_new), .req_skip_i(ix_skip),
      .rsp_valid_o(rv), .rsp_op_o(rop), .rsp_id_o(rid), .rsp_hit_o(rhit), .rsp_way_o(rway), .rsp_type_o(rtype),
      .rsp_ptr_o(rptr));
  assign ready_o = ix_ready;

  // ---- the allocator: one request and one return a clock, any class ----------------------------------------------
  logic [N-1:0] al_mask_q, fr_mask_q;
  logic [5:0] al_w, fr_w;
  logic [PtrBits-1:0] fr_p;
  logic [1:0] al_class, fr_class;
  ki_pick #(.N(N)) u_al_pick (.req_i(al_v), .mask_i(al_mask_q), .pick_o(al_rdy));
  ki_pick #(.N(N)) u_fr_pick (.req_i(fr_v), .mask_i(fr_mask_q), .pick_o(fr_rdy));
  always_comb begin
    al_w = '0;
    fr_p = '0;
    for (int i = 0; i < N; i++) begin
      if (al_rdy[i]) al_w = al_w | al_words[i*6+:6];
      if (fr_rdy[i]) fr_p = fr_p | fr_ptr[i*PtrBits+:PtrBits];
    end
    fr_w = fr_p[PtrBits-1-:6];
    al_class = al_w[5] ? 2'd3 : al_w[4] ? 2'd2 : al_w[3] ? 2'd1 : 2'd0;
    fr_class = fr_w[5] ? 2'd3 : fr_w[4] ? 2'd2 : fr_w[3] ? 2'd1 : 2'd0;
  end
  localparam int Base1 = 2 ** CELL_BITS_0;
  localparam int Base2 = Base1 + 2 * 2 ** CELL_BITS_1;
  localparam int Base3 = Base2 + 4 * 2 ** CELL_BITS_2;
  logic [3:0] sl_v;
  logic [CELL_BITS_0-1:0] sl_0;
  logic [CELL_BITS_1-1:0] sl_1;
  logic [CELL_BITS_2-1:0] sl_2;
  logic [CELL_BITS_3-1:0] sl_3;
  logic [CELL_BITS_0:0] us_0;
  logic [CELL_BITS_1:0] us_1;
  logic [CELL_BITS_2:0] us_2;
  logic [CELL_BITS_3:0] us_3;
  logic [ADDR_BITS-1:0] fr_1, fr_2, fr_3;
  assign fr_1 = fr_p[ADDR_BITS-1:0] - Base1[ADDR_BITS-1:0];
  assign fr_2 = fr_p[ADDR_BITS-1:0] - Base2[ADDR_BITS-1:0];
  assign fr_3 = fr_p[ADDR_BITS-1:0] - Base3[ADDR_BITS-1:0];
  ki_slab #(.CELL_BITS(CELL_BITS_0)) u_slab_0 (.clk_i, .rst_ni, .valid_o(sl_v[0]), .cell_o(sl_0), .take_i(|al_v && al_class == 2'd0),
      .free_i(|fr_v && fr_class == 2'd0), .free_cell_i(fr_p[CELL_BITS_0-1:0]), .used_o(us_0));
  ki_slab #(.CELL_BITS(CELL_BITS_1)) u_slab_1 (.clk_i, .rst_ni, .valid_o(sl_v[1]), .cell_o(sl_1), .take_i(|al_v && al_class == 2'd1),
      .free_i(|fr_v && fr_class == 2'd1), .free_cell_i(fr_1[1+:CELL_BITS_1]), .used_o(us_1));
  ki_slab #(.CELL_BITS(CELL_BITS_2)) u_slab_2 (.clk_i, .rst_ni, .valid_o(sl_v[2]), .cell_o(sl_2), .take_i(|al_v && al_class == 2'd2),
      .free_i(|fr_v && fr_class == 2'd2), .free_cell_i(fr_2[2+:CELL_BITS_2]), .used_o(us_2));
  ki_slab #(.CELL_BITS(CELL_BITS_3)) u_slab_3 (.clk_i, .rst_ni, .valid_o(sl_v[3]), .cell_o(sl_3), .take_i(|al_v && al_class == 2'd3),
      .free_i(|fr_v && fr_class == 2'd3), .free_cell_i(fr_3[3+:CELL_BITS_3]), .used_o(us_3));
  logic [ADDR_BITS-1:0] off_0, off_1, off_2, off_3;
  always_comb begin
    off_0 = '0;
    off_1 = '0;
    off_2 = '0;
    off_3 = '0;
    off_0[CELL_BITS_0-1:0] = sl_0;
    off_1[1+:CELL_BITS_1] = sl_1;
    off_2[2+:CELL_BITS_2] = sl_2;
    off_3[3+:CELL_BITS_3] = sl_3;
    case (al_class)
      2'd0: al_addr = off_0;
      2'd1: al_addr = off_1 + Base1[ADDR_BITS-1:0];
      2'd2: al_addr = off_2 + Base2[ADDR_BITS-1:0];
      default: al_addr = off_3 + Base3[ADDR_BITS-1:0];
    endcase
  end
  assign al_ok = sl_v[al_class];

  // ---- memory ports ----------------------------------------------------------------------------------------------
  logic [PORTS*N-1:0] pq_rd_rdy, pq_rv, pq_w_rdy, pq_b;
  for (genvar p = 0; p < PORTS; p++) begin : g_port
    logic [N-1:0] mine;
    for (genvar i = 0; i < N; i++) begin : g_mine
      assign mine[i] = i % PORTS == p;
    end
    ki_memport #(.N(N), .ID_BITS(ID_BITS), .ADDR_BITS(ADDR_BITS)) u_port (
        .clk_i, .rst_ni, .hit_valid_i(rv && rhit && rop == IxLookup && mine[rid]), .hit_id_i(rid), .hit_ptr_i(rptr),
        .rd_valid_i(rd_v & mine), .rd_ready_o(pq_rd_rdy[p*N+:N]), .rd_ptr_i(rd_ptr), .r_valid_o(pq_rv[p*N+:N]),
        .r_data_o(pr_data[p*256+:256]), .r_last_o(pr_last[p]),
        .w_valid_i(w_v & mine), .w_ready_o(pq_w_rdy[p*N+:N]), .w_addr_i(w_addr), .w_len_i(w_len), .w_data_i(w_data),
        .w_strb_i(w_strb), .w_last_i(w_last), .b_valid_o(pq_b[p*N+:N]),
        .m_arvalid_o(m_axi_arvalid_o[p]), .m_arready_i(m_axi_arready_i[p]), .m_arid_o(m_axi_arid_o[p*ID_BITS+:ID_BITS]),
        .m_araddr_o(m_axi_araddr_o[p*(ADDR_BITS+6)+:ADDR_BITS+6]), .m_arlen_o(m_axi_arlen_o[p*8+:8]),
        .m_rvalid_i(m_axi_rvalid_i[p]), .m_rready_o(m_axi_rready_o[p]), .m_rid_i(m_axi_rid_i[p*ID_BITS+:ID_BITS]),
        .m_rdata_i(m_axi_rdata_i[p*256+:256]), .m_rlast_i(m_axi_rlast_i[p]),
        .m_awvalid_o(m_axi_awvalid_o[p]), .m_awready_i(m_axi_awready_i[p]), .m_awid_o(m_axi_awid_o[p*ID_BITS+:ID_BITS]),
        .m_awaddr_o(m_axi_awaddr_o[p*(ADDR_BITS+6)+:ADDR_BITS+6]), .m_awlen_o(m_axi_awlen_o[p*8+:8]),
        .m_wvalid_o(m_axi_wvalid_o[p]), .m_wready_i(m_axi_wready_i[p]), .m_wdata_o(m_axi_wdata_o[p*256+:256]),
        .m_wstrb_o(m_axi_wstrb_o[p*32+:32]), .m_wlast_o(m_axi_wlast_o[p]),
        .m_bvalid_i(m_axi_bvalid_i[p]), .m_bready_o(m_axi_bready_o[p]), .m_bid_i(m_axi_bid_i[p*ID_BITS+:ID_BITS]));
  end
  always_comb begin
    rd_rdy = '0;
    c_rv = '0;
    w_rdy = '0;
    b_v = '0;
    for (int p = 0; p < PORTS; p++) begin
      rd_rdy = rd_rdy | pq_rd_rdy[p*N+:N];
      c_rv = c_rv | pq_rv[p*N+:N];
      w_rdy = w_rdy | pq_w_rdy[p*N+:N];
      b_v = b_v | pq_b[p*N+:N];
    end
  end

  // ---- order units: the low bits of a directory's number name its unit ------------------------------------------
  // New ones go round, past a unit that does not take one now. The turn moves only while there is a new one: were it
  // to move always, sets made at a steady pace would all meet the same unit.
  localparam int UD = DIR_BITS - OB;
  logic [ORDERS*N-1:0] oq_rdy, oq_v;
  logic [ORDERS-1:0] o_ok, o_full, o_empty;
  logic [ORDERS*DIR_BITS-1:0] o_dir;
  logic [ORDERS*PtrBits-1:0] o_first, o_ptr;
  logic [ORDERS*64-1:0] o_score;
  logic [ORDERS*5-1:0] o_mlen;
  logic [ORDERS*128-1:0] o_member;
  logic [7:0] turn_q;
  logic [N-1:0] or_fresh;
  always_comb for (int i = 0; i < N; i++) or_fresh[i] = or_v[i] && or_new[i] && or_op[i*2+:2] == OrInsert;
  for (genvar u = 0; u < ORDERS; u++) begin : g_order
    logic [N-1:0] want, pick, mask_q;
    logic o_rdy, o_v;
    logic [ID_BITS-1:0] id, o_id;
    logic [1:0] op;
    logic anew;
    logic [DIR_BITS-1:0] dir;
    logic [63:0] score;
    logic [4:0] mlen;
    logic [127:0] member;
    logic [PtrBits-1:0] ptr;
    logic [UD-1:0] unit_dir;
    always_comb begin
      for (int i = 0; i < N; i++)
        want[i] = or_v[i] && (ORDERS == 1 ||
            ((or_fresh[i] ? {24'd0, turn_q} : {{(32-DIR_BITS){1'b0}}, or_dir[i*DIR_BITS+:DIR_BITS]}) & (ORDERS - 1)) == u);
      id = '0;
      op = '0;
      anew = 1'b0;
      dir = '0;
      score = '0;
      mlen = '0;
      member = '0;
      ptr = '0;
      for (int i = 0; i < N; i++)
        if (pick[i]) begin
          id = id | i[ID_BITS-1:0];
          op = op | or_op[i*2+:2];
          anew = anew | or_new[i];
          dir = dir | or_dir[i*DIR_BITS+:DIR_BITS];
          score = score | or_score[i*64+:64];
          mlen = mlen | or_mlen[i*5+:5];
          member = member | or_member[i*128+:128];
          ptr = ptr | or_ptr[i*PtrBits+:PtrBits];
        end
      for (int i = 0; i < N; i++) begin
        oq_rdy[u*N+i] = pick[i] && o_rdy;
        oq_v[u*N+i] = o_v && o_id == i[ID_BITS-1:0];
      end
    end
    ki_pick #(.N(N)) u_pick (.req_i(want), .mask_i(mask_q), .pick_o(pick));
    ki_order #(.PTR_BITS(PtrBits), .DIR_BITS(UD), .LEAF_BITS(LEAF_BITS), .ID_BITS(ID_BITS)) u_order (
        .clk_i, .rst_ni, .req_valid_i(|want), .req_ready_o(o_rdy), .req_id_i(id), .req_op_i(op), .req_new_i(anew),
        .req_dir_i(dir[DIR_BITS-1:OB]), .req_score_i(score), .req_mlen_i(mlen), .req_member_i(member), .req_ptr_i(ptr),
        .rsp_valid_o(o_v), .rsp_id_o(o_id), .rsp_ok_o(o_ok[u]), .rsp_full_o(o_full[u]), .rsp_empty_o(o_empty[u]),
        .rsp_dir_o(unit_dir), .rsp_first_o(o_first[u*PtrBits+:PtrBits]), .rsp_score_o(o_score[u*64+:64]),
        .rsp_mlen_o(o_mlen[u*5+:5]), .rsp_member_o(o_member[u*128+:128]), .rsp_ptr_o(o_ptr[u*PtrBits+:PtrBits]));
    if (OB > 0) begin : g_dir
      assign o_dir[u*DIR_BITS+:DIR_BITS] = {unit_dir, u[OB-1:0]};
    end else begin : g_dir
      assign o_dir[u*DIR_BITS+:DIR_BITS] = unit_dir;
    end
    always_ff @(posedge clk_i or negedge rst_ni)
      if (!rst_ni) mask_q <= '0;
      else if (|want && o_rdy) mask_q <= ~(pick | (pick - 1'b1));
  end
  always_comb begin
    or_rdy = '0;
    orr_v = '0;
    orr_ok = '0;
    orr_full = '0;
    orr_empty = '0;
    orr_dir = '0;
    orr_first = '0;
    orr_ptr = '0;
    orr_score = '0;
    orr_mlen = '0;
    orr_member = '0;
    for (int u = 0; u < ORDERS; u++) begin
      or_rdy = or_rdy | oq_rdy[u*N+:N];
      orr_v  = orr_v | oq_v[u*N+:N];
      for (int i = 0; i < N; i++)
        if (oq_v[u*N+i]) begin
          orr_ok[i] = o_ok[u];
          orr_full[i] = o_full[u];
          orr_empty[i] = o_empty[u];
          orr_dir[i*DIR_BITS+:DIR_BITS] = o_dir[u*DIR_BITS+:DIR_BITS];
          orr_first[i*PtrBits+:PtrBits] = o_first[u*PtrBits+:PtrBits];
          orr_ptr[i*PtrBits+:PtrBits] = o_ptr[u*PtrBits+:PtrBits];
          orr_score[i*64+:64] = o_score[u*64+:64];
          orr_mlen[i*5+:5] = o_mlen[u*5+:5];
          orr_member[i*128+:128] = o_member[u*128+:128];
        end
    end
  end

  // ---- answers ---------------------------------------------------------------------------------------------------
  logic [MW-1:0] m_one;
  logic [7:0] m_status;
  logic [N-1:0] m_from;
  ki_merge #(.N(N), .W(MW)) u_merge (
      .clk_i, .rst_ni, .s_req_i(m_req), .s_valid_i(m_v), .s_ready_o(m_rdy), .s_data_i(m_bus), .s_last_i(m_last),
      .m_valid_o(m_axis_tvalid_o), .m_ready_i(m_axis_tready_i), .m_data_o(m_one), .m_last_o(m_axis_tlast_o), .m_from_o(m_from));
  logic [3:0] m_keep;
  assign {m_status, m_axis_tuser_o, m_keep, m_axis_tdata_o} = m_one;
  assign m_axis_tkeep_o = {{8{m_keep[3]}}, {8{m_keep[2]}}, {8{m_keep[1]}}, {8{m_keep[0]}}};

  // ---- arbitration masks and counters ----------------------------------------------------------------------------
  logic [63:0] n_in_q, n_out_q, n_drop_q, n_ok_q, n_miss_q, n_err_q, cycles_q;
  logic m_end;
  assign m_end = m_axis_tvalid_o && m_axis_tready_i && m_axis_tlast_o;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      ix_mask_q <= '0;
      al_mask_q <= '0;
      fr_mask_q <= '0;
      turn_q <= '0;
      {n_in_q, n_out_q, n_drop_q, n_ok_q, n_miss_q, n_err_q, cycles_q} <= '0;
    end else begin
`ifndef MUTANT_STARVE
      if (|cx_rdy && |cx_v) ix_mask_q <= ~(ix_pick | (ix_pick - 1'b1));
`endif
      if (|al_v) al_mask_q <= ~(al_rdy | (al_rdy - 1'b1));
      if (|fr_v) fr_mask_q <= ~(fr_rdy | (fr_rdy - 1'b1));
      if (|or_fresh) turn_q <= turn_q + 8'd1;
      cycles_q <= cycles_q + 64'd1;
      if (p_take && !p_drop) n_in_q <= n_in_q + 64'd1;
      if (m_end) begin
        if (m_axis_tuser_o[16]) n_drop_q <= n_drop_q + 64'd1;
        else begin
          n_out_q <= n_out_q + 64'd1;
          if (m_status == StOk || m_status == StReplaced) n_ok_q <= n_ok_q + 64'd1;
          if (m_status == StMiss) n_miss_q <= n_miss_q + 64'd1;
          if (m_status[6]) n_err_q <= n_err_q + 64'd1;
        end
      end
    end
  localparam int Cells = 2 ** CELL_BITS_0 + 2 ** CELL_BITS_1 + 2 ** CELL_BITS_2 + 2 ** CELL_BITS_3;
  logic [31:0] used;
  assign used = {{(31 - CELL_BITS_0) {1'b0}}, us_0} + {{(31 - CELL_BITS_1) {1'b0}}, us_1} + {{(31 - CELL_BITS_2) {1'b0}}, us_2} +
      {{(31 - CELL_BITS_3) {1'b0}}, us_3};
  assign stats = {
    256'd0, cycles_q, 32'd0, net_counters_i[64+:32], 32'd0, net_counters_i[32+:32], 32'd0, Cells[31:0], 32'd0, used,
    n_err_q, n_miss_q, n_ok_q, 32'd0, net_counters_i[0+:32], n_drop_q + {32'd0, net_counters_i[96+:32]}, n_out_q, n_in_q};

`ifdef FORMAL
  `include "ki_dispatch_props.svh"
`endif
endmodule
