// One context: what the engine knows about one request on its way, and the steps that its type takes.
//
// The core has one parser, one index pipeline, one allocator and one answer port. A context holds the lock of one key (by its hash), a
// short queue of requests on that key, and walks them through shared units; while it waits for memory, others use them. It is at once the
// type engine of the paper (TYPES says which of STRING, LIST, HASH, SET, SORTED SET it can do) and an entry of the reservation station.
//
//   cell (64-bit words)   0 {hash 32, value length 16, subkey length 8, key length 8}
//                         1 links {prev 32, next 32}; sorted set: the number of the order directory
//                         2 key, subkey, value: the body of the request that wrote it, word by word
//
// Four words are a beat: of the queue, the cell's buffer, memory and the answer. A request's body is kept in the words in which its cell
// would have it (from 2 on), so that request and cell are compared, and written, beat by beat without shifting.
//
//   STRING       index: key -> cell
//   LIST         index: key -> head cell. A ring: head.prev is the tail, so both ends are one or two reads away
//   HASH, SET    index: key+subkey -> cell, and key -> one cell of the ring of all members
//   SORTED SET   index: key+member -> cell, and key -> one of the cells; order in ki_order, its number in every cell
//
// Every cell carries the whole key, so the cell that a root points to proves the key: there is no separate root cell and no second
// read. A pointer is {words - 1, address in 64 bytes}, so that one burst reads exactly the cell.
//
// The steps of a change, in this order, each optional:
//   ALLOC, order unit, INDEX item, INDEX root, WRITE cell, LINK a, LINK b, answer, (all writes acknowledged) FREE
// Pops, reads and removals answer before; what can fail (ALLOC, order, INSERT) comes first and is undone if a later one fails.
//
// Forwarding: the last cell stays in the answer's buffer, with its links. The next request in the queue is compared with it (key and all)
// and, if it is the same, needs neither index nor memory, so a hot key is served at the speed of its answers.
//
// Comparing takes two clocks, and costs one: a beat of the cell is compared as it arrives, four lanes into a flag each, and the flags are
// looked at in the next clock, while the step behind the comparison is under way already and its answer is armed. If the flags say no, that
// step has changed nothing but registers that the next one writes anew (SExec writes the whole plan; only its leaving has effects).
//
//      clock t      the key's last beat arrives; lane flags; state -> SExec, a read's answer armed
//            t+1    good: plan made, answer's first beat into its register          not good: SRead, or SLook for another fingerprint
module ki_context #(
    parameter int ADDR_BITS = 20,
    parameter int PTR_BITS  = ADDR_BITS + 6,
    parameter int WAYS      = 4,
    parameter int DIR_BITS  = 6,
    parameter logic [4:0] TYPES = 5'b11111,  // SORTED SET, SET, HASH, LIST, STRING
    parameter int DESC_BITS = 8 + 7 + 7 + 9 + 16 + 16 + 32 + 32 + 8 + 1 + 1
) (
    input logic clk_i,
    input logic rst_ni,

    // requests
    input  logic                 desc_valid_i,
    input  logic [DESC_BITS-1:0] desc_i,        // {op klen slen vlen id tag hk hi err drop pre}
    output logic                 desc_full_o,
    input  logic                 body_valid_i,  // beats of the newest descriptor, in order
    input  logic [          3:0] body_idx_i,
    input  logic [        255:0] body_data_i,
    output logic                 busy_o,        // holds its lock

    // index
    output logic                ix_valid_o,
    input  logic                ix_ready_i,
    output logic [         1:0] ix_op_o,
    output logic [        31:0] ix_hash_o,
    output logic                ix_item_o,
    output logic [         2:0] ix_type_o,
    output logic [PTR_BITS-1:0] ix_old_o,
    output logic [PTR_BITS-1:0] ix_new_o,
    output logic [    WAYS-1:0] ix_skip_o,
    input  logic                ixr_valid_i,    // answers to this context
    input  logic [         1:0] ixr_op_i,
    input  logic                ixr_hit_i,
    input  logic [    WAYS-1:0] ixr_way_i,
    input  logic [         2:0] ixr_type_i,
    input  logic [PTR_BITS-1:0] ixr_ptr_i,

    // allocator: answers in the clock of the grant
    output logic                al_valid_o,
    output logic [         5:0] al_words_o,   // words - 1
    input  logic                al_ready_i,
    input  logic                al_ok_i,
    input  logic [ADDR_BITS-1:0] al_addr_i,
    output logic                fr_valid_o,
    output logic [PTR_BITS-1:0] fr_ptr_o,
    input  logic                fr_ready_i,

    // memory: the core reads the cell by itself when a lookup hits; other reads are asked for here
    output logic                rd_valid_o,
    output logic [PTR_BITS-1:0] rd_ptr_o,
    input  logic                rd_ready_i,
    input  logic                r_valid_i,
    input  logic [       255:0] r_data_i,
    input  logic                r_last_i,
    output logic                w_valid_o,
    input  logic                w_ready_i,
    output logic [ ADDR_BITS:0] w_addr_o,     // in beats of 32 bytes
    output logic [         3:0] w_len_o,      // beats - 1
    output logic [       255:0] w_data_o,
    output logic [        31:0] w_strb_o,
    output logic                w_last_o,
    input  logic                b_valid_i,

    // order unit
    output logic                or_valid_o,
    input  logic                or_ready_i,
    output logic [         1:0] or_op_o,
    output logic                or_new_o,      // INSERT into a new directory
    output logic [DIR_BITS-1:0] or_dir_o,
    output logic [        63:0] or_score_o,    // AT: the rank
    output logic [         4:0] or_mlen_o,
    output logic [       127:0] or_member_o,
    output logic [PTR_BITS-1:0] or_ptr_o,
    input  logic                orr_valid_i,
    input  logic                orr_ok_i,
    input  logic                orr_full_i,    // not ok because the directory is full (else: no memory)
    input  logic                orr_empty_i,
    input  logic [DIR_BITS-1:0] orr_dir_i,
    input  logic [PTR_BITS-1:0] orr_first_i,   // the pointer of the first member that remains
    input  logic [        63:0] orr_score_i,
    input  logic [         4:0] orr_mlen_i,
    input  logic [       127:0] orr_member_i,
    input  logic [PTR_BITS-1:0] orr_ptr_i,

    // counters for STATS, four at a time
    output logic [  1:0] st_idx_o,
    input  logic [255:0] st_data_i,

    // answer
    output logic         m_req_o,     // a beat is there, or may be in the next clock
    output logic         m_valid_o,
    input  logic         m_ready_i,
    output logic [255:0] m_data_o,
    output logic [  3:0] m_keep_o,   // words that are there, from the lowest
    output logic         m_last_o,
    output logic [ 16:0] m_user_o,
    output logic [  7:0] m_status_o  // of the answer, with its first beat
);
  `include "ki_defs.svh"

  localparam logic [31:0] Zero32 = 32'd0;

  // ---- state: one hot --------------------------------------------------------------------------------------------
  localparam int SIdle = 0, SLook = 1, SWait = 2, SRead = 3, SCompare = 4, SExec = 5, SAlloc = 6, SItem = 7, SItemW = 8, SRoot = 9;
  localparam int SRootW = 10, SOrder = 11, SOrderW = 12, SWrite = 13, SLinkA = 14, SLinkB = 15, SFree = 16, SDone = 17, STail = 18;
  localparam int STailW = 19, SUndoI = 20, SUndoR = 21, SUndoF = 22, SRecord = 23, SStats = 24, SOrder2 = 25, SOrder2W = 26;
  localparam int SRange = 27, SScore = 28, States = 29;
  logic [States-1:0] st_q, st_d;
  function automatic logic [States-1:0] to(input int state);
    to = '0;
    to[state] = 1'b1;
  endfunction

  // ---- the queue -------------------------------------------------------------------------------------------------
  logic pop, have, late, b_seek, b_load;
  logic [5:0] b_from;
  logic [255:0] body;  // the beat that compares or is written now
  logic [DESC_BITS-1:0] head;
  ki_queue #(.DESC_BITS(DESC_BITS)) u_queue (
      .clk_i, .rst_ni, .desc_valid_i, .desc_i, .full_o(desc_full_o), .body_valid_i, .body_idx_i, .body_data_i, .have_o(have), .head_o(head),
      .late_o(late), .pop_i(pop), .seek_i(b_seek), .from_i(b_from), .load_i(b_load), .beat_o(body));

  logic [7:0] op, d_err;
  logic [6:0] klen, slen;
  logic [8:0] vlen;
  logic [15:0] d_id, d_tag;
  logic [31:0] hk, hi;
  logic d_drop, d_pre, has_sub;
  assign {op, klen, slen, vlen, d_id, d_tag, hk, hi, d_err, d_drop, d_pre} = head;
  assign has_sub = slen != 0;

  function automatic logic [5:0] answer_words(input logic [8:0] bytes);
    answer_words = bytes[8:3] + (bytes[2:0] != 0 ? 6'd2 : 6'd1);  // with the header
  endfunction

  // What is decoded from it stands from the second clock of a request on.
  logic fi_q;
  logic [5:0] kw, ksw;              // words of the key, of key and subkey
  logic [5:0] val_q, cmp_q, last_q;  // words of the cell: before the value (or member); the last that is compared; the last
  logic [1:0] score_q;              // lane of the first word of the value
  logic sub_q, read_q, remove_q, add_q;
  logic get_q, set_q, del_q, lpush_q, rpush_q, lpop_q, rpop_q, hset_q, sadd_q, sismember_q, spop_q, zadd_q, zrem_q, zpopmin_q, zrange_q;
  assign kw  = {2'd0, klen[6:3]} + {5'd0, |klen[2:0]};
  assign ksw = {2'd0, klen[6:3]} + {2'd0, slen[6:3]} + {5'd0, |klen[2:0]} + {5'd0, |slen[2:0]};
  always_ff @(posedge clk_i) begin
    val_q <= kw + 6'd1;
    cmp_q <= (st_q[SIdle] || fi_q ? ksw : kw) + 6'd1;
    last_q <= {2'd0, klen[6:3]} + {2'd0, slen[6:3]} + vlen[8:3] + {5'd0, |klen[2:0]} + {5'd0, |slen[2:0]} + {5'd0, |vlen[2:0]} + 6'd1;
    score_q <= ksw[1:0] + 2'd2;
    sub_q <= has_sub;
    {get_q, set_q, del_q} <= {op == OpGet, op == OpSet, op == OpDel};
    {lpush_q, rpush_q, lpop_q, rpop_q} <= {op == OpLpush, op == OpRpush, op == OpLpop, op == OpRpop};
    {hset_q, sadd_q, sismember_q, spop_q} <= {op == OpHset, op == OpSadd, op == OpSismember, op == OpSpop};
    {zadd_q, zrem_q, zpopmin_q, zrange_q} <= {op == OpZadd, op == OpZrem, op == OpZpopmin, op == OpZrange};
    read_q <= op == OpGet || op == OpHget || op == OpSismember || op == OpZscore;
    remove_q <= op == OpHdel || op == OpSrem || op == OpZrem;
    add_q <= op == OpSet || op == OpLpush || op == OpRpush || op == OpHset || op == OpSadd || op == OpZadd;
  end

  // the cell found: c_*; also the cache of the next request while cv_q
  logic cv_q, found_q;         // found: if `chk_q`, only if the flags of the last beat say so too
  logic [PTR_BITS-1:0] c_ptr_q, c_next_q, c_prev_q;
  logic single_q, pair_q, same_q;  // next is the cell itself; next is prev; as many words as the request's cell
  logic [2:0] c_type_q;
  logic [31:0] c_hash_q;
  logic [15:0] c_vlen_q;
  logic [6:0] c_slen_q;
  logic [5:0] c_vleft_q, c_sleft_q;  // words of an answer with the value, with the subkey
  logic [63:0] c_score_q;
  logic [WAYS-1:0] skip_q;
  logic [4:0] rcnt_q;          // beats of a cell that came, or were compared; while writing: beats sent
  logic rd_busy_q;             // beats are still coming
  logic tail_q;                // reading a second cell without comparing
  logic exec_q;                // in SExec a clock ago

  // the plan of a change
  logic p_item_q, p_root_q, p_order_q, p_write_q, p_a_q, p_b_q, p_free_q, p_answer_q;
  logic [1:0] p_item_op_q, p_root_op_q;
  logic [31:0] p_item_hash_q;
  logic [PTR_BITS-1:0] p_old_q, p_rold_q, p_rnew_q, x_q;  // x: the cell that is written
  logic p_rnew_x_q, p_new_dir_q;
  logic [PTR_BITS-1:0] l_next_q, l_prev_q;                // links of the new cell
  logic l_self_q;                                         // ... or itself
  logic [PTR_BITS-1:0] a_addr_q, b_addr_q, free_q;
  logic [PTR_BITS-1:0] a_next_q, a_prev_q, b_next_q;
  logic a_both_q, a_x_q;  // a: write both links (else prev only); the value is the new cell
  logic [7:0] p_status_q;
  logic [DIR_BITS-1:0] dir_q;
  logic [7:0] fail_q;
  logic [5:0] outst_q;  // writes not acknowledged
  logic [3:0] rec_q;    // records of ZRANGE so far
  logic [31:0] rank_q;
  logic [3:0] want_q;

  logic idle_quiet, em_busy;
  assign idle_quiet = outst_q == 0;
  assign busy_o = !st_q[SIdle] || have || !idle_quiet || m_valid_o;

  // ---- comparing -------------------------------------------------------------------------------------------------
  // a beat of the cell against the request: lengths in word 0, nothing in word 1, then the body
  logic cmp_first, cmp_last, cmp_came, cmp_step;
  logic chk_q, eq_q, good;               // the last beat was compared in the clock before; all beats before that were equal; and that one
  logic [255:0] cached;                  // a beat of the cell in the buffer
  logic [3:0] came_eq_q, kept_eq_q;      // lanes that do not differ: of the beat that memory brought, of the buffer's
  assign cmp_first = rcnt_q == 0;
  assign cmp_last = rcnt_q == {1'b0, cmp_q[5:2]};
  assign cmp_came = st_q[SRead] && r_valid_i;
  assign cmp_step = cmp_came || st_q[SCompare];
  assign good = eq_q && &came_eq_q && &kept_eq_q;
  function automatic logic [3:0] lanes_equal(input logic [255:0] x);
    for (int l = 0; l < 4; l++)
      lanes_equal[l] = x[l*64+:64] == body[l*64+:64] || (cmp_last && l[1:0] > cmp_q[1:0]) || (cmp_first && l == 1);
    if (cmp_first) lanes_equal[0] = x[7:0] == {1'b0, klen} && (!fi_q || x[15:8] == {1'b0, slen});
  endfunction
  always_ff @(posedge clk_i) begin
    came_eq_q <= lanes_equal(r_data_i) | {4{!cmp_came}};
    kept_eq_q <= lanes_equal(cached) | {4{!st_q[SCompare]}};
    eq_q <= good || st_q[SIdle] || (ixr_valid_i && ixr_op_i == IxLookup);
    chk_q <= cmp_step && cmp_last;
  end

  // ---- the body's reader -----------------------------------------------------------------------------------------
  // A beat ahead of its use: beat 0 stands when comparing begins, and from the second clock of SExec on for writing. There a sorted set's
  // request first has its member and the first word of its value (a score; rank and count) in place of that.
  logic idle_wait;  // the next request's body is not here, so nothing can be compared with it yet
  logic idle_compare, look_end;
  assign idle_wait = cv_q && fi_q == has_sub && late;
  assign idle_compare = have && !d_pre && cv_q && fi_q == has_sub && !late;
  assign look_end = ixr_valid_i && ixr_op_i == IxLookup;
  logic exec_next;  // SExec may follow
  assign exec_next = (cmp_step && cmp_last) || (st_q[SWait] && look_end && !ixr_hit_i);
  assign b_from = exec_next && op[6] && TYPES[4] ? val_q + 6'd1 : 6'd0;
  assign b_seek = exec_next || st_q[SLook] || st_q[SOrder] || st_q[SOrder2] || st_q[SDone] || (st_q[SIdle] && !idle_compare) ||
      (st_q[SWait] && !look_end) || ((st_q[SOrderW] || st_q[SOrder2W]) && !orr_valid_i);
  assign b_load = st_q[SIdle] || st_q[SWait] || cmp_step || (st_q[SExec] && !exec_q) || st_q[SOrderW] || st_q[SOrder2W] ||
      (st_q[SWrite] && w_ready_i);

  logic [127:0] member_q;
  logic [63:0] value_q;
  if (TYPES[4]) begin : g_zset
    logic [1:0] member_at, second;  // lanes
    logic [63:0] value;
    assign member_at = val_q[1:0] + 2'd1;
    assign second = val_q[1:0] + 2'd2;
    assign value = body[{score_q, 6'd0}+:64];
    always_ff @(posedge clk_i)
      if (exec_q) begin
        value_q  <= value;
        member_q <= {slen > 7'd8 ? body[{second, 6'd0}+:64] : 64'd0, body[{member_at, 6'd0}+:64]};
        rank_q   <= value[31:0];
      end else if (st_q[SRecord]) rank_q <= rank_q + 32'd1;
    always_ff @(posedge clk_i) want_q <= |value_q[63:36] || &value_q[35:32] ? 4'd14 : value_q[35:32];
  end else begin : g_zset
    assign value_q = '0;
    assign member_q = '0;
    assign want_q = '0;
    assign rank_q = '0;
  end

  // ---- outputs of the steps --------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] w1_next, w1_prev;
  logic [63:0] w_word1;
  always_comb begin
    w1_next = l_self_q ? x_q : l_next_q;
    w1_prev = l_self_q ? x_q : l_prev_q;
    if (zadd_q) begin
      w1_next = {{(PTR_BITS - DIR_BITS) {1'b0}}, dir_q};
      w1_prev = '0;
    end
    w_word1 = {Zero32[31:PTR_BITS], w1_prev, Zero32[31:PTR_BITS], w1_next};
  end
  logic [PTR_BITS-1:0] a_next, a_prev, b_next;
  assign a_next = a_x_q ? x_q : a_next_q;
  assign a_prev = a_x_q ? x_q : a_prev_q;
  assign b_next = a_x_q ? x_q : b_next_q;
  logic [255:0] w_beat;  // of a whole cell
  always_comb begin
    w_beat = body;
    if (rcnt_q == 0) w_beat[127:0] = {w_word1, sub_q ? hi : hk, 7'd0, vlen, 1'b0, slen, 1'b0, klen};
    w_valid_o = st_q[SWrite] || st_q[SLinkA] || st_q[SLinkB];
    w_addr_o  = {x_q[ADDR_BITS-1:0], 1'b0};
    w_len_o   = last_q[5:2];
    w_strb_o  = '1;
    w_last_o  = rcnt_q == {1'b0, last_q[5:2]};
    w_data_o  = w_beat;
    if (st_q[SLinkA]) begin
      w_addr_o = {a_addr_q[ADDR_BITS-1:0], 1'b0};
      w_len_o  = '0;
      w_last_o = 1'b1;
      w_strb_o = a_both_q ? 32'h0000_ff00 : 32'h0000_f000;
      w_data_o[127:64] = {Zero32[31:PTR_BITS], a_prev, Zero32[31:PTR_BITS], a_next};
    end
    if (st_q[SLinkB]) begin
      w_addr_o = {b_addr_q[ADDR_BITS-1:0], 1'b0};
      w_len_o  = '0;
      w_last_o = 1'b1;
      w_strb_o = 32'h0000_0f00;
      w_data_o[127:64] = {32'd0, Zero32[31:PTR_BITS], b_next};
    end
  end

  logic undo_item, undo_root;
  assign undo_item = p_item_q && p_item_op_q == IxInsert;
  assign undo_root = p_root_q && p_root_op_q == IxInsert;

  always_comb begin
    ix_valid_o = 1'b0;
    ix_op_o    = IxLookup;
    ix_hash_o  = fi_q ? hi : hk;
    ix_item_o  = fi_q;
    ix_old_o   = '0;
    ix_new_o   = x_q;
    ix_skip_o  = '0;
    unique case (1'b1)
      st_q[SLook]: begin
        ix_valid_o = idle_quiet && !rd_busy_q && !em_busy;
        ix_skip_o  = skip_q;
      end
      st_q[SItem]: begin
        ix_valid_o = p_item_q;
        ix_op_o    = p_item_op_q;
        ix_hash_o  = p_item_hash_q;
        ix_item_o  = 1'b1;
        ix_old_o   = p_old_q;
      end
      st_q[SRoot]: begin
        ix_valid_o = p_root_q;
        ix_op_o    = p_root_op_q;
        ix_hash_o  = hk;
        ix_item_o  = 1'b0;
        ix_old_o   = p_rold_q;
        ix_new_o   = p_rnew_x_q ? x_q : p_rnew_q;
      end
      st_q[SUndoI]: begin
        ix_valid_o = undo_item;
        ix_op_o    = IxDelete;
        ix_hash_o  = hi;
        ix_item_o  = 1'b1;
        ix_old_o   = x_q;
      end
      st_q[SUndoR]: begin
        ix_valid_o = undo_root;
        ix_op_o    = IxDelete;
        ix_hash_o  = hk;
        ix_item_o  = 1'b0;
        ix_old_o   = x_q;
      end
      default: ;
    endcase
  end
  assign ix_type_o  = op[6:4];
  assign al_valid_o = st_q[SAlloc];
  assign al_words_o = last_q;
  assign fr_valid_o = (st_q[SFree] && p_free_q && idle_quiet && !rd_busy_q) || st_q[SUndoF];
  assign fr_ptr_o   = st_q[SUndoF] ? x_q : free_q;
  assign rd_valid_o = st_q[STail] && !rd_busy_q && !em_busy && idle_quiet;
  assign rd_ptr_o   = c_ptr_q;
  assign st_idx_o   = rcnt_q[1:0];

  always_comb begin
    or_valid_o  = st_q[SOrder] || st_q[SOrder2] || st_q[SRange];
    or_op_o     = OrInsert;
    or_new_o    = p_new_dir_q;
    or_dir_o    = dir_q;
    or_score_o  = value_q;
    or_mlen_o   = slen[4:0];
    or_member_o = member_q;
    or_ptr_o    = x_q;
    if (st_q[SOrder2]) or_new_o = 1'b0;
    if (st_q[SOrder2] || (st_q[SOrder] && zrem_q)) begin
      or_op_o    = OrRemove;
      or_score_o = c_score_q;
    end
    if (st_q[SOrder] && zpopmin_q) or_op_o = OrPopmin;
    if (st_q[SRange]) begin
      or_op_o    = OrAt;
      or_score_o = {32'd0, rank_q};
    end
  end

  // ---- next state ------------------------------------------------------------------------------------------------
  // after ALLOC the enabled steps follow one another; an answer that waited for the writes starts with the last of them
  logic [States-1:0] after_alloc, after_item, after_root, after_order, after_write, after_a, after_b;
  assign after_b     = p_free_q ? to(SFree) : to(SDone);
  assign after_a     = p_b_q ? to(SLinkB) : after_b;
  assign after_write = p_a_q ? to(SLinkA) : after_a;
  assign after_order = p_write_q ? to(SWrite) : after_write;
  assign after_root  = p_order_q ? to(SOrder) : after_order;
  assign after_item  = p_root_q ? to(SRoot) : after_root;
  assign after_alloc = p_item_q ? to(SItem) : after_item;

  logic w_fire, w_end;
  assign w_fire = w_valid_o && w_ready_i;
  assign w_end  = w_fire && w_last_o;

  logic exec_find_root;  // an item was not found: look at the root
  logic exec_wrong, exec_miss, exec_run;
  logic exec_body;       // the next step needs words of the body that are on their way to their registers
  assign exec_wrong = found_q && c_type_q != op[6:4];
  assign exec_find_root = !found_q && fi_q;
  assign exec_miss = !exec_wrong && !exec_find_root && ((!found_q && !add_q) || (found_q && sub_q && !fi_q && (read_q || remove_q)));
  assign exec_run = st_q[SExec] && (!chk_q || good);
  assign exec_body = !exec_q && (zrem_q || zrange_q || (zadd_q && found_q && fi_q));
  logic em_arm, em_start;
  assign em_arm = cmp_step && cmp_last && read_q && fi_q == sub_q && c_type_q == op[6:4];

  always_comb begin
    st_d = st_q;
    pop = 1'b0;
    em_start = 1'b0;
    unique case (1'b1)
      st_q[SIdle]:
      if (have && !idle_wait) begin
        if (d_drop || d_err != StOk || op == OpPing) begin
          em_start = 1'b1;
          st_d = to(SDone);
        end else if (op == OpStats) st_d = to(SStats);
        else if (d_pre) st_d = to(SWait);
        else if (idle_compare) st_d = to(SCompare);
        else st_d = to(SLook);
      end
      st_q[SLook]: if (ix_valid_o && ix_ready_i) st_d = to(SWait);
      st_q[SWait]: if (look_end) st_d = ixr_hit_i ? to(SRead) : to(SExec);
      st_q[SRead]:
      if (cmp_step && cmp_last) st_d = to(SExec);
      else if (!rd_busy_q) st_d = to(SLook);  // somebody else's fingerprint
      st_q[SCompare]:
      if (!good) st_d = to(SLook);
      else if (cmp_last) st_d = to(SExec);
      st_q[SExec]:
      if (!exec_run) st_d = rd_busy_q ? to(SRead) : to(SLook);  // neither was that its key
      else if (exec_wrong || exec_miss) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end else if (exec_find_root) st_d = to(SLook);
      else if (read_q) st_d = to(SDone);  // its answer is armed
      else if (del_q || lpop_q || (rpop_q && single_q)) begin
        em_start = 1'b1;
        st_d = to(SRoot);
      end else if (rpop_q) st_d = to(STail);
      else if (spop_q || (remove_q && !zrem_q)) begin
        em_start = 1'b1;
        st_d = to(SItem);
      end else if (sadd_q && found_q && fi_q) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end else if (!rd_busy_q && !exec_body) begin
        if (zrem_q || zpopmin_q) st_d = to(SOrder);
        else if (zrange_q) st_d = to(SRange);
        else if (zadd_q && found_q && fi_q) st_d = to(SScore);
        else if ((set_q || (hset_q && fi_q)) && found_q && same_q) st_d = to(SWrite);
        else st_d = to(SAlloc);
      end
      st_q[SScore]:
      if (c_score_q == value_q) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end else st_d = to(SOrder);
      st_q[SAlloc]:
      if (al_ready_i) begin
        st_d = al_ok_i ? after_alloc : to(SDone);
        em_start = !al_ok_i;
      end
      st_q[SItem]: if (ix_ready_i) st_d = p_item_op_q == IxInsert ? to(SItemW) : after_item;
      st_q[SItemW]: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_item : to(SUndoF);
      st_q[SRoot]: if (ix_ready_i) st_d = p_root_op_q == IxInsert ? to(SRootW) : after_root;
      st_q[SRootW]: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_root : to(SUndoI);
      st_q[SOrder]: if (or_ready_i) st_d = to(SOrderW);
      st_q[SOrderW]:
      if (orr_valid_i) begin
        if (zrange_q) begin  // walks ranks; what is not there ends it
          em_start = !orr_ok_i || want_q == 0;
          st_d = em_start ? to(SDone) : to(SRecord);
        end else if (zpopmin_q) st_d = to(SRecord);
        else if (zrem_q) begin
          em_start = 1'b1;
          st_d = to(SItem);
        end else if (orr_ok_i) st_d = found_q && fi_q ? to(SOrder2) : after_order;
        else if (found_q && fi_q) begin
          em_start = 1'b1;
          st_d = to(SDone);
        end else st_d = to(SUndoI);
      end
      st_q[SOrder2]: if (or_ready_i) st_d = to(SOrder2W);
      st_q[SOrder2W]: if (orr_valid_i) st_d = to(SWrite);
      st_q[SRange]: if (or_ready_i) st_d = to(SOrderW);
      st_q[SRecord]:
      if (zpopmin_q) begin
        em_start = 1'b1;
        st_d = to(STail);
      end else begin
        em_start = rec_q + 4'd1 == want_q;
        st_d = em_start ? to(SDone) : to(SRange);
      end
      st_q[SWrite]:
      if (w_end) begin
        em_start = p_answer_q && !p_a_q && !p_b_q;
        st_d = after_write;
      end
      st_q[SLinkA]:
      if (w_ready_i) begin
        em_start = p_answer_q && !p_b_q;
        st_d = after_a;
      end
      st_q[SLinkB]:
      if (w_ready_i) begin
        em_start = p_answer_q;
        st_d = after_b;
      end
      st_q[SFree]: if (fr_valid_o && fr_ready_i) st_d = to(SDone);
      st_q[STail]: if (rd_valid_o && rd_ready_i) st_d = to(STailW);
      st_q[STailW]:
      if (rcnt_q != 0) begin  // its first beat, with lengths and links, is in registers
        em_start = !zpopmin_q;
        st_d = zpopmin_q ? to(SItem) : to(SLinkA);
      end
      st_q[SUndoI]: if (!undo_item || ix_ready_i) st_d = to(SUndoR);
      st_q[SUndoR]: if (!undo_root || ix_ready_i) st_d = to(SUndoF);
      st_q[SUndoF]:
      if (fr_ready_i) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end
      st_q[SStats]:
      if (rcnt_q == 5'd3) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end
      st_q[SDone]:
      if (!em_busy && !rd_busy_q) begin
        pop  = 1'b1;
        st_d = to(SIdle);
      end
      default: ;
    endcase
  end

  // ---- the answer: what it would be if it started in this state -----------------------------------------------------
  logic [7:0] em_status;
  logic [15:0] em_len;
  logic [5:0] em_left, em_from;
  always_comb begin
    em_status = StOk;
    em_len = 16'd0;
    em_left = 6'd1;
    em_from = val_q;
    unique case (1'b1)
      st_q[SIdle]: begin
        em_status = d_err;
        em_from = 6'd0;
      end
      st_q[SRead], st_q[SCompare]: begin
        if (!sismember_q) begin
          em_len  = st_q[SRead] && cmp_first ? r_data_i[31:16] : c_vlen_q;
          em_left = st_q[SRead] && cmp_first ? answer_words(r_data_i[24:16]) : c_vleft_q;
        end
        em_from = cmp_q;
      end
      st_q[SExec]: begin
        em_status = exec_wrong ? StWrongType : exec_miss ? StMiss : sadd_q ? StReplaced : StOk;
        if (!exec_wrong && !exec_miss) begin
          em_len  = lpop_q || rpop_q ? c_vlen_q : spop_q ? {9'd0, c_slen_q} : 16'd0;
          em_left = lpop_q || rpop_q ? c_vleft_q : spop_q ? c_sleft_q : 6'd1;
        end
      end
      st_q[SScore]: em_status = StReplaced;
      st_q[SAlloc]: em_status = StNoMemory;
      st_q[SWrite], st_q[SLinkA], st_q[SLinkB]: em_status = p_status_q;
      st_q[SUndoF]: em_status = fail_q;
      st_q[STailW]: {em_len, em_left} = {c_vlen_q, c_vleft_q};
      // records, counters: from the buffer's first word on
      st_q[SOrderW]: begin
        em_status = zrange_q ? (rec_q == 0 ? StMiss : StOk) : zrem_q ? StOk : orr_full_i ? StFull : StNoMemory;
        if (zrange_q) {em_len, em_left} = {7'd0, rec_q, 5'd0, rec_q, 2'd1};
        em_from = 6'd63;
      end
      st_q[SRecord]: begin
        {em_len, em_left} = zpopmin_q ? {16'd32, 6'd5} : {7'd0, want_q, 5'd0, want_q, 2'd1};
        em_from = 6'd63;
      end
      st_q[SStats]: begin
        {em_len, em_left} = {16'd128, 6'd17};
        em_from = 6'd63;
      end
      default: ;
    endcase
  end

  logic cb_we;
  logic [3:0] cb_waddr;
  logic [255:0] cb_wdata;
  ki_answer u_answer (
      .clk_i, .rst_ni, .r_valid_i, .r_data_i, .rd_busy_i(rd_busy_q), .rcnt_i(rcnt_q), .cb_we_i(cb_we), .cb_waddr_i(cb_waddr),
      .cb_wdata_i(cb_wdata), .next_i(st_q[SCompare] && !cmp_last), .beat_o(cached), .arm_i(em_arm), .good_i(good), .start_i(em_start),
      .status_i(em_status), .len_i(em_len), .left_i(em_left), .from_i(em_from), .op_i(op), .id_i(d_id),
      .tag_i(d_tag), .drop_i(d_drop), .busy_o(em_busy), .m_req_o, .m_valid_o, .m_ready_i, .m_data_o, .m_keep_o, .m_last_o,
      .m_user_o, .m_status_o);

  // ---- writing the cell buffer -----------------------------------------------------------------------------------
  logic [63:0] rec_score_q;
  logic [4:0] rec_mlen_q;
  logic [127:0] rec_member_q;
  always_comb begin
    cb_we = 1'b0;
    cb_waddr = rcnt_q[3:0];
    cb_wdata = r_data_i;
    if (r_valid_i && !(tail_q && zpopmin_q)) cb_we = 1'b1;
    if (st_q[SWrite]) begin
      cb_we = w_ready_i;
      cb_wdata = w_beat;
    end
    if (st_q[SStats]) begin
      cb_we = 1'b1;
      cb_wdata = st_data_i;
    end
    if (st_q[SRecord]) begin
      cb_we = 1'b1;
      cb_waddr = rec_q;
      cb_wdata = {rec_member_q, 59'd0, rec_mlen_q, rec_score_q};
    end
  end

  // ---- registers -------------------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] t_next, t_prev;  // links in a cell's first beat
  assign t_next = r_data_i[64+:PTR_BITS];
  assign t_prev = r_data_i[96+:PTR_BITS];
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      st_q <= to(SIdle);
      outst_q <= '0;
      rd_busy_q <= 1'b0;
      cv_q <= 1'b0;
      rcnt_q <= '0;
    end else begin
      st_q <= st_d;
      outst_q <= outst_q + {5'd0, w_end} - {5'd0, b_valid_i};
      if (r_valid_i && r_last_i) rd_busy_q <= 1'b0;
      else if ((look_end && ixr_hit_i) || (rd_valid_o && rd_ready_i)) rd_busy_q <= 1'b1;
      // what rcnt counts changes with the state
      if (look_end || (rd_valid_o && rd_ready_i)) rcnt_q <= '0;
      else if (r_valid_i || st_q[SCompare] || st_q[SStats] || st_q[SWrite]) rcnt_q <= rcnt_q + {4'd0, !st_q[SWrite] || w_ready_i};
      else if (!rd_busy_q) rcnt_q <= '0;
      // the cache lives from one request to the next in the queue
      if (st_q[SIdle] && !have && idle_quiet) cv_q <= 1'b0;
      else if (st_q[SScore]) cv_q <= 1'b1;
      else if (st_q[SExec]) cv_q <= exec_run && found_q && !exec_wrong && !exec_miss && (read_q || (sadd_q && fi_q));
      else if (st_q[SLook] || st_q[SStats]) cv_q <= 1'b0;
      else if (st_q[SWrite] && w_end) cv_q <= !rpush_q && !zadd_q;
    end

  always_ff @(posedge clk_i) begin
    exec_q <= st_q[SExec];
    if (st_q[SIdle] && have && !idle_wait) begin
      skip_q <= '0;
      fi_q <= has_sub;
      found_q <= 1'b0;
      rec_q <= '0;
      tail_q <= 1'b0;
    end
    // lookup
    if (look_end) begin
      c_ptr_q  <= ixr_ptr_i;
      c_type_q <= ixr_type_i;
      skip_q   <= skip_q | ixr_way_i | (ixr_way_i - 1'b1);
      found_q  <= 1'b0;
    end
    if (cmp_step && cmp_last) found_q <= 1'b1;
    if (st_q[SExec] && !exec_run) found_q <= 1'b0;
    if (exec_run && exec_find_root) begin
      fi_q   <= 1'b0;
      skip_q <= '0;
    end
    if (r_valid_i) begin
      if (rcnt_q == 0) begin
        {c_hash_q, c_vlen_q, c_slen_q} <= {r_data_i[63:16], r_data_i[14:8]};
        {c_vleft_q, c_sleft_q} <= {answer_words(r_data_i[24:16]), answer_words({2'd0, r_data_i[14:8]})};
      end
      if (rcnt_q == 0 && !(tail_q && zpopmin_q)) begin
        c_next_q <= t_next;
        c_prev_q <= t_prev;
      end
      if (TYPES[4]) c_score_q <= r_data_i[{c_ptr_q[PTR_BITS-6+:2], 6'd0}+:64];  // the last word of a sorted set's cell
    end
    if (r_valid_i && rcnt_q == 0) {single_q, pair_q} <= {t_next == c_ptr_q, t_next == t_prev};
    else {single_q, pair_q} <= {c_next_q == c_ptr_q, c_next_q == c_prev_q};
    same_q <= c_ptr_q[PTR_BITS-1-:6] == last_q;
    if (rd_valid_o && rd_ready_i) tail_q <= 1'b1;

    // ---- the plan, all of it
    if (st_q[SExec]) begin
      dir_q <= c_next_q[DIR_BITS-1:0];
      fail_q <= StNoMemory;
      // what most changes share
      p_item_hash_q <= hi;
      p_old_q  <= c_ptr_q;
      p_rold_q <= c_ptr_q;
      p_rnew_q <= c_next_q;
      x_q      <= c_ptr_q;
      free_q   <= c_ptr_q;
      l_next_q <= c_next_q;
      l_prev_q <= c_prev_q;
      a_addr_q <= c_next_q;
      a_prev_q <= c_prev_q;
      a_next_q <= c_next_q;
      b_addr_q <= c_prev_q;
      b_next_q <= c_next_q;
      {p_item_q, p_root_q, p_order_q, p_a_q, p_b_q, p_free_q} <= '0;
      {p_rnew_x_q, p_new_dir_q, l_self_q, a_both_q, a_x_q} <= '0;
      p_item_op_q <= IxInsert;
      p_root_op_q <= IxUpdate;
      p_status_q  <= StOk;
      p_write_q   <= add_q;
      p_answer_q  <= add_q;
      if (add_q) begin
        if (!found_q) begin
          // the first of its key
          l_self_q    <= !set_q && !zadd_q;
          p_root_q    <= 1'b1;
          p_root_op_q <= IxInsert;
          p_rnew_x_q  <= 1'b1;
          p_item_q    <= sub_q;
          p_order_q   <= zadd_q;
          p_new_dir_q <= 1'b1;
        end else if (set_q || ((hset_q || zadd_q) && fi_q)) begin
          // a new value in the place of an old one
          if (!set_q) p_status_q <= StReplaced;
          if (!same_q && !zadd_q) begin
            p_free_q    <= 1'b1;
            p_root_q    <= 1'b1;
            p_rnew_x_q  <= 1'b1;
            p_item_q    <= sub_q;
            p_item_op_q <= IxUpdate;
            if (hset_q) begin
              l_self_q <= single_q;
              p_a_q    <= !single_q;
              p_b_q    <= !single_q && !pair_q;
              a_both_q <= pair_q;
              a_x_q    <= 1'b1;
            end
          end
        end else begin
          // one more: before the cell that the root names
          p_item_q  <= sub_q;
          p_order_q <= zadd_q;
          if (!zadd_q) begin
            p_root_q   <= !rpush_q;
            p_rnew_x_q <= 1'b1;
            l_next_q   <= c_ptr_q;
            p_a_q      <= 1'b1;
            p_b_q      <= !single_q;
            a_addr_q   <= c_ptr_q;
            a_both_q   <= single_q;
            a_x_q      <= 1'b1;
          end
        end
      end else if (del_q) begin
        p_root_q    <= 1'b1;
        p_root_op_q <= IxDelete;
        p_free_q    <= 1'b1;
      end else begin
        // remove the cell found (HDEL, SREM, SPOP, LPOP, RPOP of one; ZREM, ZPOPMIN have no ring)
        p_item_q      <= op[6:4] != TyList;
        p_item_op_q   <= IxDelete;
        p_item_hash_q <= c_hash_q;
        p_root_q      <= 1'b1;
        p_root_op_q   <= single_q && !op[6] ? IxDelete : IxUpdate;
        p_free_q      <= 1'b1;
        p_a_q         <= !single_q && !op[6];
        p_b_q         <= !single_q && !pair_q && !op[6];
        a_both_q      <= pair_q;
        if (pair_q) a_prev_q <= c_next_q;  // one remains: a ring of itself
        if (rpop_q && !single_q) c_ptr_q <= c_prev_q;  // the tail is read next
      end
    end
    if (st_q[SAlloc] && al_ready_i) x_q <= {last_q, al_addr_i};
    if (st_q[SOrderW] && orr_valid_i) begin
      {rec_score_q, rec_mlen_q, rec_member_q} <= {orr_score_i, orr_mlen_i, orr_member_i};
      if (zadd_q) begin
        if (orr_ok_i) dir_q <= orr_dir_i;
        fail_q <= orr_full_i ? StFull : StNoMemory;
      end
      if (zrem_q || zpopmin_q) begin
        p_order_q   <= 1'b0;
        p_root_op_q <= orr_empty_i ? IxDelete : IxUpdate;
        p_rnew_q    <= orr_first_i;
      end
      if (zpopmin_q) begin
        p_old_q  <= orr_ptr_i;
        p_rold_q <= orr_ptr_i;
        free_q   <= orr_ptr_i;
        c_ptr_q  <= orr_ptr_i;
      end
    end
    if (st_q[SRecord]) rec_q <= rec_q + 4'd1;
    // the second cell is here: unlink it (RPOP), or take its hash (ZPOPMIN)
    if (st_q[STailW] && r_valid_i && rcnt_q == 0) begin
      if (zpopmin_q) p_item_hash_q <= r_data_i[63:32];
      else begin
        // c_ptr: tail; next is the head
        free_q   <= c_ptr_q;
        a_addr_q <= t_next;
        b_addr_q <= t_prev;
        a_both_q <= t_next == t_prev;
        p_b_q    <= t_next != t_prev;
        a_next_q <= t_next;
        a_prev_q <= t_prev;
        b_next_q <= t_next;
      end
    end
    // a written cell is the cell found from here on
    if (st_q[SWrite] && w_end) begin
      c_ptr_q  <= x_q;
      c_type_q <= op[6:4];
      c_next_q <= w1_next;
      c_prev_q <= w1_prev;
      c_vlen_q <= {7'd0, vlen};
      c_slen_q <= slen;
      {c_vleft_q, c_sleft_q} <= {answer_words(vlen), answer_words({2'd0, slen})};
      c_hash_q <= sub_q ? hi : hk;
      fi_q     <= sub_q;
    end
  end
endmodule
