// The order of sorted sets: two levels of sorted rows in on-chip memory, searched and shifted a row a clock.
//
//   directory (one a key)  n | {lower bound, leaf, count} x 16          row of dir_mem
//                                     |
//   leaf                     {score, member, length, pointer} x 16      row of leaf_mem
//
// A row is compared with a key in all its places at once, and an insertion shifts its upper part by one: so an operation is one
// directory row and one leaf row, about nine clocks, whatever the set holds. A full leaf is split in two halves. After a removal a leaf is
// merged with a neighbour if both hold 8 together; so two neighbours always hold 9 or more, and a directory of 16 leaves
// is never full with fewer than 72 members (256 at most; 128 or more when nothing is removed). Beyond that: FULL.
//
//   INSERT, REMOVE, POPMIN: O(1) rows; a split or a merge adds about 12 clocks, at most once in eight operations.
//   AT(rank): one clock a leaf before it, then the leaf.
//
// Order (spec/wire.md): score, member byte by byte, a prefix first: {score, bytes from the first, length} as one number.
module ki_order #(
    parameter int PTR_BITS  = 26,
    parameter int DIR_BITS  = 6,
    parameter int LEAF_BITS = 8,
    parameter int ID_BITS   = 4
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    input  logic                req_valid_i,
    output logic                req_ready_o,
    input  logic [ ID_BITS-1:0] req_id_i,
    input  logic [         1:0] req_op_i,
    input  logic                req_new_i,
    input  logic [DIR_BITS-1:0] req_dir_i,
    input  logic [        63:0] req_score_i,
    input  logic [         4:0] req_mlen_i,
    input  logic [       127:0] req_member_i,
    input  logic [PTR_BITS-1:0] req_ptr_i,
    output logic                rsp_valid_o,
    output logic [ ID_BITS-1:0] rsp_id_o,
    output logic                rsp_ok_o,
    output logic                rsp_full_o,
    output logic                rsp_empty_o,
    output logic [DIR_BITS-1:0] rsp_dir_o,
    output logic [PTR_BITS-1:0] rsp_first_o,
    output logic [        63:0] rsp_score_o,
    output logic [         4:0] rsp_mlen_o,
    output logic [       127:0] rsp_member_o,
    output logic [PTR_BITS-1:0] rsp_ptr_o
);
  `include "ki_defs.svh"

  localparam int F = 16;
  localparam int K = 64 + 128 + 5;          // key: score, member from its first byte, length
  localparam int EL = K + PTR_BITS;         // an entry of a leaf
  localparam int ED = K + LEAF_BITS + 5;    // an entry of a directory: lower bound, leaf, count

  logic [F*ED+4:0] dir_mem[2**DIR_BITS];    // {n, entries}
  logic [F*EL-1:0] leaf_mem[2**LEAF_BITS];
  logic [F*ED+4:0] dir_rd_q;
  logic [F*EL-1:0] leaf_rd_q;
  logic dir_we, leaf_we;
  logic [DIR_BITS-1:0] dir_addr;
  logic [LEAF_BITS-1:0] leaf_addr;
  logic [F*EL-1:0] leaf_wdata;

  logic [DIR_BITS-1:0] dir_q;
  logic [F*ED-1:0] d_q;   // the directory
  logic [4:0] n_q;
  logic [F*EL-1:0] l_q, r_q;  // the leaf; its right neighbour
  logic [K-1:0] key_q;
  logic [PTR_BITS-1:0] ptr_q;
  logic [1:0] op_q;
  logic new_q;
  logic [ID_BITS-1:0] id_q;
  logic [31:0] rank_q;
  logic [3:0] slot_q;     // the place of the leaf in the directory
  logic [4:0] cnt_q, rcnt_q;
  logic [EL-1:0] got_q;
  logic full_q, ok_q, empty_q;

  always_ff @(posedge clk_i) begin
    if (dir_we) dir_mem[dir_addr] <= {n_q, d_q};
    else dir_rd_q <= dir_mem[dir_addr];
    if (leaf_we) leaf_mem[leaf_addr] <= leaf_wdata;
    else leaf_rd_q <= leaf_mem[leaf_addr];
  end

  logic [DIR_BITS:0] d_used;
  logic [LEAF_BITS:0] l_used;
  logic dv, lv, d_take, l_take, d_free, l_free;
  logic [DIR_BITS-1:0] d_new;
  logic [LEAF_BITS-1:0] l_new, l_free_id;
  ki_slab #(.CELL_BITS(DIR_BITS)) u_dirs (.clk_i, .rst_ni, .valid_o(dv), .cell_o(d_new), .take_i(d_take), .free_i(d_free),
      .free_cell_i(dir_q), .used_o(d_used));
  ki_slab #(.CELL_BITS(LEAF_BITS)) u_leaves (.clk_i, .rst_ni, .valid_o(lv), .cell_o(l_new), .take_i(l_take), .free_i(l_free),
      .free_cell_i(l_free_id), .used_o(l_used));

  localparam logic [4:0] SIdle = 0, SDir = 1, SFind = 2, SSlot = 3, SLeaf = 4, SLook = 5, SDo = 6, SSplit = 7, SSplit2 = 8;
  localparam logic [4:0] SPut = 9, SShrink = 10, SMergeRd = 11, SMergeL = 12, SMerge = 13, SFirst = 14, SFirst2 = 15;
  localparam logic [4:0] SReply = 17, SRank = 18, SMergeR = 19, SMergeR2 = 20, SLeaf2 = 21;
  logic [4:0] st_q;

  // ---- one row of comparators for both levels --------------------------------------------------------------------
  logic [F-1:0] lt, eq, lt_q, eq_q;
  logic row_dir;
  assign row_dir = st_q == SFind;
  always_comb
    for (int i = 0; i < F; i++) begin
      lt[i] = (row_dir ? d_q[i*ED+LEAF_BITS+5+:K] : l_q[i*EL+PTR_BITS+:K]) < key_q && i < (row_dir ? {27'd0, n_q} : {27'd0, cnt_q});
      eq[i] = (row_dir ? d_q[i*ED+LEAF_BITS+5+:K] : l_q[i*EL+PTR_BITS+:K]) == key_q && i < (row_dir ? {27'd0, n_q} : {27'd0, cnt_q});
    end

  // the last place whose bound is not above the key; the first place takes what is below all
  logic [3:0] slot_find;
  always_comb begin
    slot_find = 4'd0;
    for (int i = 0; i < F; i++) if (lt_q[i] || eq_q[i]) slot_find = i[3:0];
  end

  function automatic logic [127:0] swap(input logic [127:0] m);
    for (int b = 0; b < 16; b++) swap[b*8+:8] = m[(15-b)*8+:8];
  endfunction

  // ---- rows changed ----------------------------------------------------------------------------------------------
  logic [F*EL-1:0] l_ins, l_del;
  logic [F-1:0] from;  // removal: this place and all behind it
  assign from = op_q == OrPopmin ? {F{1'b1}} : ~(eq_q - 1'b1) & {F{|eq_q}};  // eq has one bit: the bits from it upwards
  always_comb begin
    for (int i = 0; i < F; i++) begin
      l_ins[i*EL+:EL] = lt_q[i] ? l_q[i*EL+:EL] : {key_q, ptr_q};
      if (i > 0) if (!lt_q[i] && !lt_q[i-1]) l_ins[i*EL+:EL] = l_q[(i-1)*EL+:EL];
      l_del[i*EL+:EL] = from[i] && i < F - 1 ? l_q[((i+1)%F)*EL+:EL] : l_q[i*EL+:EL];
    end
  end
  logic [F*ED-1:0] d_drop, d_gap;  // without the place behind slot (merge) or slot itself (empty leaf); with a place more
  logic drop_self_q;
  always_comb
    for (int i = 0; i < F; i++) begin
      d_drop[i*ED+:ED] = d_q[i*ED+:ED];
      if (i < F - 1 && (i > {28'd0, slot_q} || (drop_self_q && i == {28'd0, slot_q}))) d_drop[i*ED+:ED] = d_q[((i+1)%F)*ED+:ED];
      d_gap[i*ED+:ED]  = i > {28'd0, slot_q} + 1 ? d_q[((i+F-1)%F)*ED+:ED] : d_q[i*ED+:ED];
    end

  logic [LEAF_BITS-1:0] slot_leaf, next_leaf;
  logic [4:0] slot_cnt, next_cnt, prev_cnt;
  logic [3:0] slot_p, slot_m;
  assign slot_p = slot_q + 4'd1;
  assign slot_m = slot_q - 4'd1;
  // one AND-OR a place: an index times a width that is no power of two would be a shifter as wide as the row
  logic [F-1:0] at_slot, at_next, at_prev, at_rank, at_cnt;
  logic [EL-1:0] rank_entry;
  always_comb begin
    {slot_leaf, slot_cnt, next_leaf, next_cnt, prev_cnt, rank_entry} = '0;
    for (int i = 0; i < F; i++) begin
      at_slot[i] = slot_q == i[3:0];
      at_next[i] = slot_p == i[3:0];
      at_prev[i] = slot_m == i[3:0];
      at_rank[i] = rank_q[3:0] == i[3:0];
      at_cnt[i]  = cnt_q[3:0] == i[3:0];
      slot_leaf  = slot_leaf | (d_q[i*ED+5+:LEAF_BITS] & {LEAF_BITS{at_slot[i]}});
      slot_cnt   = slot_cnt | (d_q[i*ED+:5] & {5{at_slot[i]}});
      next_leaf  = next_leaf | (d_q[i*ED+5+:LEAF_BITS] & {LEAF_BITS{at_next[i]}});
      next_cnt   = next_cnt | (d_q[i*ED+:5] & {5{at_next[i]}});
      prev_cnt   = prev_cnt | (d_q[i*ED+:5] & {5{at_prev[i]}});
      rank_entry = rank_entry | (l_q[i*EL+:EL] & {EL{at_rank[i]}});
    end
  end

  always_comb begin
    dir_addr = st_q == SIdle ? req_dir_i : dir_q;
    dir_we = st_q == SPut || st_q == SSplit2 || st_q == SFirst;
    leaf_we = st_q == SPut || st_q == SSplit || st_q == SSplit2 || st_q == SMergeR2;
    leaf_wdata = l_q;
    leaf_addr = slot_leaf;
    if (st_q == SSplit) begin
      leaf_addr = l_new;
      leaf_wdata = {l_q[F*EL-1:F/2*EL], l_q[F*EL-1:F/2*EL]};
    end
    if (st_q == SMergeRd) leaf_addr = next_leaf;
    if (st_q == SFirst) leaf_addr = d_q[5+:LEAF_BITS];
    d_take = st_q == SSlot && new_q && dv && lv;
    l_take = d_take || (st_q == SSplit);
    d_free = st_q == SShrink && empty_q;
    l_free = (st_q == SShrink && cnt_q == 0) || st_q == SMergeR2;
    l_free_id = st_q == SMergeR2 ? next_leaf : slot_leaf;
  end

  assign req_ready_o = st_q == SIdle;
  assign rsp_valid_o = st_q == SReply;
  assign rsp_id_o = id_q;
  assign rsp_ok_o = ok_q;
  assign rsp_full_o = full_q;
  assign rsp_empty_o = empty_q;
  assign rsp_dir_o = dir_q;
  assign {rsp_score_o, rsp_mlen_o} = {got_q[EL-1-:64], got_q[PTR_BITS+:5]};
  assign rsp_member_o = swap(got_q[PTR_BITS+5+:128]);
  assign rsp_ptr_o = got_q[PTR_BITS-1:0];
  logic [PTR_BITS-1:0] first_q;
  assign rsp_first_o = first_q;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) st_q <= SIdle;
    else
      case (st_q)
        SIdle: if (req_valid_i) st_q <= req_new_i && req_op_i == OrInsert ? SSlot : SDir;
        SDir: st_q <= op_q == OrAt ? SRank : op_q == OrPopmin ? SSlot : SFind;
        SFind: st_q <= SSlot;
        SSlot: st_q <= new_q ? (dv && lv ? SLook : SReply) : SLeaf;
        SRank: st_q <= rank_q < {27'd0, slot_cnt} ? SLeaf : {1'b0, slot_q} + 5'd1 >= n_q ? SReply : SRank;
        SLeaf: st_q <= SLeaf2;
        SLeaf2: st_q <= SLook;
        SLook: st_q <= SDo;
        SDo:
        if (op_q == OrAt) st_q <= SReply;
        else if (op_q == OrInsert) st_q <= cnt_q == F[4:0] ? (n_q == F[4:0] || !lv ? SReply : SSplit) : SPut;
        else st_q <= SPut;
        SSplit: st_q <= SSplit2;
        SSplit2: st_q <= SFind;
        SPut: st_q <= op_q == OrInsert ? SReply : SShrink;
        SShrink:
        if (empty_q) st_q <= SReply;
        else if (cnt_q == 0) st_q <= SMergeR;
        else if ({1'b0, slot_q} + 5'd1 < n_q && cnt_q + next_cnt <= 5'd8) st_q <= SMergeRd;
        else if (slot_q != 0 && cnt_q + prev_cnt <= 5'd8) st_q <= SMergeL;
        else st_q <= SFirst;
        // merge the leaf behind slot into it: rows are read again, r is shifted out while l takes its first entries
        SMergeL: st_q <= SMergeRd;
        SMergeRd: st_q <= SMerge;
        SMerge: if (rcnt_q == 0) st_q <= SMergeR2;
        SMergeR2: st_q <= SMergeR;
        SMergeR: st_q <= SFirst;
        SFirst: st_q <= SFirst2;
        SFirst2: st_q <= SReply;
        default: st_q <= SIdle;
      endcase

  logic merge_rd_q, merge_ld_q;  // which row comes from memory
  always_ff @(posedge clk_i) begin
    lt_q <= lt;
    eq_q <= eq;
    case (st_q)
      SIdle: begin
        {id_q, op_q, new_q, dir_q, ptr_q} <= {req_id_i, req_op_i, req_new_i && req_op_i == OrInsert, req_dir_i, req_ptr_i};
        key_q <= {req_score_i, swap(req_member_i), req_mlen_i};
        rank_q <= req_score_i[31:0];
        slot_q <= '0;
        {ok_q, full_q, empty_q, drop_self_q} <= '0;
      end
      SDir: begin
        n_q <= dir_rd_q[F*ED+:5];
        d_q <= dir_rd_q[F*ED-1:0];
      end
      SRank: if (rank_q >= {27'd0, slot_cnt}) begin
        rank_q <= rank_q - {27'd0, slot_cnt};
        slot_q <= slot_q + 4'd1;
      end
      SSlot: begin
        if (op_q == OrInsert || op_q == OrRemove) slot_q <= slot_find;
        if (new_q) begin
          slot_q <= '0;
          n_q <= 5'd1;
          d_q <= '0;
          d_q[5+:LEAF_BITS] <= l_new;
          cnt_q <= '0;
          if (dv && lv) dir_q <= d_new;
        end
      end
      SLeaf2: begin
        l_q <= leaf_rd_q;
        cnt_q <= slot_cnt;
      end
      SDo: begin
        got_q <= op_q == OrAt ? rank_entry : l_q[EL-1:0];
        if (op_q == OrAt) ok_q <= 1'b1;
        if (op_q == OrInsert && cnt_q != F[4:0]) begin
          l_q <= l_ins;
          cnt_q <= cnt_q + 5'd1;
          for (int i = 0; i < F; i++) if (at_slot[i]) d_q[i*ED+:5] <= cnt_q + 5'd1;
          ok_q <= 1'b1;
        end
        if (op_q == OrInsert && cnt_q == F[4:0]) full_q <= n_q == F[4:0];
        if (op_q == OrPopmin || op_q == OrRemove) begin
          l_q <= l_del;
          ok_q <= 1'b1;
          cnt_q <= cnt_q - 5'd1;
          for (int i = 0; i < F; i++) if (at_slot[i]) d_q[i*ED+:5] <= cnt_q - 5'd1;
          empty_q <= n_q == 5'd1 && cnt_q == 5'd1;
        end
      end
      SSplit: begin  // the upper half is in its new leaf; the directory gets a place for it
        d_q <= d_gap;
        for (int i = 0; i < F; i++) begin
          if (at_slot[i]) d_q[i*ED+:5] <= 5'd8;
          if (at_next[i]) d_q[i*ED+:ED] <= {l_q[F/2*EL+PTR_BITS+:K], l_new, 5'd8};
        end
        n_q <= n_q + 5'd1;
      end
      SShrink: begin
        drop_self_q <= cnt_q == 0;
      end
      SMergeL: slot_q <= slot_m;
      SMergeRd: begin  // addr = next leaf now; the left one is read again in SMerge's first clock
        merge_rd_q <= 1'b1;
        merge_ld_q <= 1'b0;
        rcnt_q <= 5'd31;
      end
      SMerge: begin
        merge_rd_q <= 1'b0;
        merge_ld_q <= merge_rd_q;
        if (merge_rd_q) r_q <= leaf_rd_q;
        else if (merge_ld_q) begin
          l_q <= leaf_rd_q;
          cnt_q <= slot_cnt;
          rcnt_q <= next_cnt;
        end else if (rcnt_q != 0) begin
          for (int i = 0; i < F; i++) if (at_cnt[i]) l_q[i*EL+:EL] <= r_q[EL-1:0];
          r_q <= r_q >> EL;
          cnt_q <= cnt_q + 5'd1;
          rcnt_q <= rcnt_q - 5'd1;
        end
      end
      SMergeR2: for (int i = 0; i < F; i++) if (at_slot[i]) d_q[i*ED+:5] <= cnt_q;
      SMergeR: begin  // drop a place of the directory
        d_q <= d_drop;
        n_q <= n_q - 5'd1;
      end
      SFirst2: first_q <= leaf_rd_q[PTR_BITS-1:0];
      default: ;
    endcase
    if (st_q == SShrink && empty_q) first_q <= '0;
  end
endmodule
