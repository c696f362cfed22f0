// The plan of a context's change: which steps it takes, and with which operands each of them asks the index, the allocator and memory.
//
// It is made in one clock, SExec, of the request and the cell found; the steps read it from then on. Three things come later: the address
// of a new cell (SAlloc), what the order unit says (SOrderW), and the links of a second cell (RPOP's tail; ZPOPMIN's hash). A plan that was
// made for nothing (the cell turns out to be another's) is written over by the next one, whole.
//
// The ring of a list, a hash or a set, and what a change writes into it (x: the new cell; c: the one found, which the root names):
//
//      LPUSH, RPUSH, HSET, SADD     prev <-> x <-> c        x {next c, prev}   a = c {prev x}    b = prev {next x}
//      another length (HSET)        prev <-> x <-> next     x {next, prev}     a = next {prev x} b = prev {next x}
//      removed                      prev <-----> next                          a = next {prev}   b = prev {next}
//
// Where a and b are the same cell, a writes both of its links, and there is no b. Where that is the cell that goes, there is neither.
module ki_plan #(
    parameter int ADDR_BITS = 20,
    parameter int PTR_BITS  = ADDR_BITS + 6,
    parameter int DIR_BITS  = 6
) (
    input  logic                 clk_i,
    input  logic [         28:0] st_i,          // the context's state (ki_states.svh)
    // the request
    input  logic [          2:0] type_i,
    input  logic [         31:0] hk_i,          // hash of the key, of key and subkey
    input  logic [         31:0] hi_i,
    input  logic [          5:0] last_i,        // words of its cell - 1
    input  logic                 sub_i,         // has a subkey
    input  logic                 add_i,         // writes a cell
    input  logic                 set_i,
    input  logic                 del_i,
    input  logic                 rpush_i,
    input  logic                 hset_i,
    input  logic                 zadd_i,
    input  logic                 zrem_i,
    input  logic                 zpopmin_i,
    // the cell found
    input  logic                 found_i,
    input  logic                 fi_i,          // by key and subkey, else it is the root's
    input  logic                 same_i,        // has as many words as the request's
    input  logic                 single_i,      // its next is itself
    input  logic                 pair_i,        // its next is its prev
    input  logic [ PTR_BITS-1:0] c_ptr_i,
    input  logic [ PTR_BITS-1:0] c_next_i,
    input  logic [ PTR_BITS-1:0] c_prev_i,
    input  logic [         31:0] c_hash_i,
    // a second cell: its first beat is here
    input  logic                 tail_i,
    input  logic [         31:0] r_hash_i,
    input  logic [ PTR_BITS-1:0] r_next_i,
    input  logic [ PTR_BITS-1:0] r_prev_i,
    // allocator
    input  logic                 al_ready_i,
    input  logic [ADDR_BITS-1:0] al_addr_i,
    output logic [ PTR_BITS-1:0] fr_ptr_o,
    // order unit
    input  logic                 orr_valid_i,
    input  logic                 orr_ok_i,
    input  logic                 orr_full_i,
    input  logic                 orr_empty_i,
    input  logic [ DIR_BITS-1:0] orr_dir_i,
    input  logic [ PTR_BITS-1:0] orr_first_i,
    input  logic [ PTR_BITS-1:0] orr_ptr_i,
    output logic                 new_dir_o,
    output logic [ DIR_BITS-1:0] dir_o,
    // the steps
    output logic [          7:0] steps_o,       // {item root order write a b free answer}; answer: it waits for the writes
    output logic                 item_new_o,    // the item's step is an INSERT
    output logic                 root_new_o,
    output logic [          7:0] status_o,      // if all of it goes well
    output logic [          7:0] fail_o,        // if it is undone
    // index: what is asked in this state (in SLook: the lookup)
    output logic                 ix_valid_o,    // not in SLook
    output logic [          1:0] ix_op_o,
    output logic [         31:0] ix_hash_o,
    output logic                 ix_item_o,
    output logic [ PTR_BITS-1:0] ix_old_o,
    output logic [ PTR_BITS-1:0] ix_new_o,
    // memory: what is written in this state
    output logic [ PTR_BITS-1:0] x_o,           // the cell that is written
    output logic [ PTR_BITS-1:0] next_o,        // its links
    output logic [ PTR_BITS-1:0] prev_o,
    output logic                 link_o,        // one word of another cell, not the cell
    output logic [  ADDR_BITS:0] w_addr_o,
    output logic [         31:0] w_strb_o,
    output logic [         63:0] w_link_o
);
  `include "ki_defs.svh"
  `include "ki_states.svh"

  localparam logic [31:0] Zero32 = 32'd0;

  // ---- the plan --------------------------------------------------------------------------------------------------
  logic p_item_q, p_root_q, p_order_q, p_write_q, p_a_q, p_b_q, p_free_q, p_answer_q;
  logic [1:0] p_item_op_q, p_root_op_q;
  logic [31:0] p_item_hash_q;
  logic [PTR_BITS-1:0] p_old_q, p_rold_q, p_rnew_q, free_q;
  logic p_rnew_x_q;                                       // the root's new pointer is x
  logic [PTR_BITS-1:0] l_next_q, l_prev_q;                // links of the new cell
  logic l_self_q;                                         // ... or itself
  logic [PTR_BITS-1:0] a_addr_q, b_addr_q;
  logic [PTR_BITS-1:0] a_next_q, a_prev_q, b_next_q;
  logic a_both_q, a_x_q;  // a: write both links (else prev only); the value is the new cell
  assign steps_o = {p_item_q, p_root_q, p_order_q, p_write_q, p_a_q, p_b_q, p_free_q, p_answer_q};

  always_ff @(posedge clk_i) begin
    if (st_i[SExec]) begin
      dir_o  <= c_next_i[DIR_BITS-1:0];
      fail_o <= StNoMemory;
      // what most changes share
      p_item_hash_q <= hi_i;
      p_old_q  <= c_ptr_i;
      p_rold_q <= c_ptr_i;
      p_rnew_q <= c_next_i;
      x_o      <= c_ptr_i;
      free_q   <= c_ptr_i;
      l_next_q <= c_next_i;
      l_prev_q <= c_prev_i;
      a_addr_q <= c_next_i;
      a_prev_q <= c_prev_i;
      a_next_q <= c_next_i;
      b_addr_q <= c_prev_i;
      b_next_q <= c_next_i;
      {p_item_q, p_root_q, p_order_q, p_a_q, p_b_q, p_free_q} <= '0;
      {p_rnew_x_q, new_dir_o, l_self_q, a_both_q, a_x_q} <= '0;
      p_item_op_q <= IxInsert;
      p_root_op_q <= IxUpdate;
      status_o    <= StOk;
      p_write_q   <= add_i;
      p_answer_q  <= add_i;
      if (add_i) begin
        if (!found_i) begin
          // the first of its key
          l_self_q    <= !set_i && !zadd_i;
          p_root_q    <= 1'b1;
          p_root_op_q <= IxInsert;
          p_rnew_x_q  <= 1'b1;
          p_item_q    <= sub_i;
          p_order_q   <= zadd_i;
          new_dir_o   <= 1'b1;
        end else if (set_i || ((hset_i || zadd_i) && fi_i)) begin
          // a new value in the place of an old one
          if (!set_i) status_o <= StReplaced;
          if (!same_i && !zadd_i) begin
            p_free_q    <= 1'b1;
            p_root_q    <= 1'b1;
            p_rnew_x_q  <= 1'b1;
            p_item_q    <= sub_i;
            p_item_op_q <= IxUpdate;
            if (hset_i) begin
              l_self_q <= single_i;
              p_a_q    <= !single_i;
              p_b_q    <= !single_i && !pair_i;
              a_both_q <= pair_i;
              a_x_q    <= 1'b1;
            end
          end
        end else begin
          // one more: before the cell that the root names
          p_item_q  <= sub_i;
          p_order_q <= zadd_i;
          if (!zadd_i) begin
            p_root_q   <= !rpush_i;
            p_rnew_x_q <= 1'b1;
            l_next_q   <= c_ptr_i;
            p_a_q      <= 1'b1;
            p_b_q      <= !single_i;
            a_addr_q   <= c_ptr_i;
            a_both_q   <= single_i;
            a_x_q      <= 1'b1;
          end
        end
      end else if (del_i) begin
        p_root_q    <= 1'b1;
        p_root_op_q <= IxDelete;
        p_free_q    <= 1'b1;
      end else begin
        // remove the cell found (HDEL, SREM, SPOP, LPOP, RPOP of one; ZREM, ZPOPMIN have no ring)
        p_item_q      <= type_i != TyList;
        p_item_op_q   <= IxDelete;
        p_item_hash_q <= c_hash_i;
        p_root_q      <= 1'b1;
        p_root_op_q   <= single_i && !type_i[2] ? IxDelete : IxUpdate;
        p_free_q      <= 1'b1;
        p_a_q         <= !single_i && !type_i[2];
        p_b_q         <= !single_i && !pair_i && !type_i[2];
        a_both_q      <= pair_i;
        if (pair_i) a_prev_q <= c_next_i;  // one remains: a ring of itself
      end
    end
    if (st_i[SAlloc] && al_ready_i) x_o <= {last_i, al_addr_i};
    // the order unit has answered: where the set is, or which cell goes and which one the root names then
    if (st_i[SOrderW] && orr_valid_i) begin
      if (zadd_i) begin
        if (orr_ok_i) dir_o <= orr_dir_i;
        fail_o <= orr_full_i ? StFull : StNoMemory;
      end
      if (zrem_i || zpopmin_i) begin
        p_order_q   <= 1'b0;
        p_root_op_q <= orr_empty_i ? IxDelete : IxUpdate;
        p_rnew_q    <= orr_first_i;
      end
      if (zpopmin_i) begin
        p_old_q  <= orr_ptr_i;
        p_rold_q <= orr_ptr_i;
        free_q   <= orr_ptr_i;
      end
    end
    // the second cell is here: unlink it (RPOP), or take its hash (ZPOPMIN)
    if (tail_i) begin
      if (zpopmin_i) p_item_hash_q <= r_hash_i;
      else begin
        // c_ptr_i: tail; next is the head
        free_q   <= c_ptr_i;
        a_addr_q <= r_next_i;
        b_addr_q <= r_prev_i;
        a_both_q <= r_next_i == r_prev_i;
        p_b_q    <= r_next_i != r_prev_i;
        a_next_q <= r_next_i;
        a_prev_q <= r_prev_i;
        b_next_q <= r_next_i;
      end
    end
  end

  // ---- the index -------------------------------------------------------------------------------------------------
  logic undo_item, undo_root;
  assign item_new_o = p_item_op_q == IxInsert;
  assign root_new_o = p_root_op_q == IxInsert;
  assign undo_item = p_item_q && item_new_o;
  assign undo_root = p_root_q && root_new_o;
  always_comb begin
    ix_valid_o = 1'b0;
    ix_op_o    = IxLookup;
    ix_hash_o  = fi_i ? hi_i : hk_i;
    ix_item_o  = fi_i;
    ix_old_o   = '0;
    ix_new_o   = x_o;
    unique case (1'b1)
      st_i[SItem]: begin
        ix_valid_o = p_item_q;
        ix_op_o    = p_item_op_q;
        ix_hash_o  = p_item_hash_q;
        ix_item_o  = 1'b1;
        ix_old_o   = p_old_q;
      end
      st_i[SRoot]: begin
        ix_valid_o = p_root_q;
        ix_op_o    = p_root_op_q;
        ix_hash_o  = hk_i;
        ix_item_o  = 1'b0;
        ix_old_o   = p_rold_q;
        ix_new_o   = p_rnew_x_q ? x_o : p_rnew_q;
      end
      st_i[SUndoI]: begin
        ix_valid_o = undo_item;
        ix_op_o    = IxDelete;
        ix_hash_o  = hi_i;
        ix_item_o  = 1'b1;
        ix_old_o   = x_o;
      end
      st_i[SUndoR]: begin
        ix_valid_o = undo_root;
        ix_op_o    = IxDelete;
        ix_hash_o  = hk_i;
        ix_item_o  = 1'b0;
        ix_old_o   = x_o;
      end
      default: ;
    endcase
  end
  assign fr_ptr_o = st_i[SUndoF] ? x_o : free_q;

  // ---- memory ----------------------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] a_next, a_prev, b_next;
  assign a_next = a_x_q ? x_o : a_next_q;
  assign a_prev = a_x_q ? x_o : a_prev_q;
  assign b_next = a_x_q ? x_o : b_next_q;
  assign link_o = st_i[SLinkA] || st_i[SLinkB];
  always_comb begin
    next_o = l_self_q ? x_o : l_next_q;
    prev_o = l_self_q ? x_o : l_prev_q;
    if (zadd_i) begin  // no ring: the order directory's number
      next_o = {{(PTR_BITS - DIR_BITS) {1'b0}}, dir_o};
      prev_o = '0;
    end
    w_addr_o = {x_o[ADDR_BITS-1:0], 1'b0};
    w_strb_o = '1;
    w_link_o = {Zero32[31:PTR_BITS], a_prev, Zero32[31:PTR_BITS], a_next};
    if (st_i[SLinkA]) begin
      w_addr_o = {a_addr_q[ADDR_BITS-1:0], 1'b0};
      w_strb_o = a_both_q ? 32'h0000_ff00 : 32'h0000_f000;
    end
    if (st_i[SLinkB]) begin
      w_addr_o = {b_addr_q[ADDR_BITS-1:0], 1'b0};
      w_strb_o = 32'h0000_0f00;
      w_link_o = {32'd0, Zero32[31:PTR_BITS], b_next};
    end
  end
endmodule
