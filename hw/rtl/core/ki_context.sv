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
// Here are the states, the cell found, and what binds these together:
//   ki_queue    requests that wait, and the body of the oldest        ki_plan     a change: its steps and their operands
//   ki_decode   the oldest request as flags and numbers of words      ki_zset     what a sorted set asks of the order unit
//   ki_compare  is it the cell that the request means?                ki_reply    what the answer says; ki_answer sends it
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
  `include "ki_states.svh"

  localparam logic [31:0] Zero32 = 32'd0;

  // ---- state: one hot --------------------------------------------------------------------------------------------
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
  logic fi_q;  // key and subkey are looked for, else the root
  logic [5:0] val, cmp, last;
  logic [1:0] score_at;
  logic is_read, is_remove, is_add;
  logic is_set, is_del, is_rpush, is_lpop, is_rpop, is_hset, is_sadd, is_sismember, is_spop, is_zadd, is_zrem, is_zpopmin, is_zrange, sub;
  ki_decode u_decode (
      .clk_i, .op_i(op), .klen_i(klen), .slen_i(slen), .vlen_i(vlen), .item_i(st_q[SIdle] || fi_q), .val_o(val), .cmp_o(cmp),
      .last_o(last), .score_o(score_at), .sub_o(sub), .read_o(is_read), .remove_o(is_remove), .add_o(is_add), .set_o(is_set),
      .del_o(is_del), .rpush_o(is_rpush), .lpop_o(is_lpop), .rpop_o(is_rpop), .hset_o(is_hset), .sadd_o(is_sadd),
      .sismember_o(is_sismember), .spop_o(is_spop), .zadd_o(is_zadd), .zrem_o(is_zrem), .zpopmin_o(is_zpopmin), .zrange_o(is_zrange));

  // the cell found: c_*; also the cache of the next request while cv_q
  logic cv_q, found_q;         // found: if `chk`, only if the flags of the last beat say so too
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
  logic [5:0] outst_q;         // writes not acknowledged
  logic [3:0] rec_q;           // records of ZRANGE so far

  logic idle_quiet, em_busy;
  assign idle_quiet = outst_q == 0;
  assign busy_o = !st_q[SIdle] || have || !idle_quiet || m_valid_o;

  // ---- comparing -------------------------------------------------------------------------------------------------
  logic cmp_last, cmp_step, chk, good;   // the last beat; a beat; the last beat was compared in the clock before; all were equal so far
  logic look_end;                        // the index answers a lookup
  logic [255:0] cached;                  // a beat of the cell in the buffer
  assign look_end = ixr_valid_i && ixr_op_i == IxLookup;
  ki_compare u_compare (
      .clk_i, .body_i(body), .klen_i(klen), .slen_i(slen), .item_i(fi_q), .upto_i(cmp), .begin_i(st_q[SIdle] || look_end),
      .rcnt_i(rcnt_q), .came_i(st_q[SRead] && r_valid_i), .r_data_i, .kept_i(st_q[SCompare]), .cached_i(cached),
      .step_o(cmp_step), .last_o(cmp_last), .chk_o(chk), .good_o(good));

  // ---- the body's reader -----------------------------------------------------------------------------------------
  // A beat ahead of its use: beat 0 stands when comparing begins, and from the second clock of SExec on for writing. There a sorted set's
  // request first has its member and the first word of its value (a score; rank and count) in place of that.
  logic idle_wait;  // the next request's body is not here, so nothing can be compared with it yet
  logic idle_compare;
  assign idle_wait = cv_q && fi_q == has_sub && late;
  assign idle_compare = have && !d_pre && cv_q && fi_q == has_sub && !late;
  logic exec_next;  // SExec may follow
  assign exec_next = (cmp_step && cmp_last) || (st_q[SWait] && look_end && !ixr_hit_i);
  assign b_from = exec_next && op[6] && TYPES[4] ? val + 6'd1 : 6'd0;
  assign b_seek = exec_next || st_q[SLook] || st_q[SOrder] || st_q[SOrder2] || st_q[SDone] || (st_q[SIdle] && !idle_compare) ||
      (st_q[SWait] && !look_end) || ((st_q[SOrderW] || st_q[SOrder2W]) && !orr_valid_i);
  assign b_load = st_q[SIdle] || st_q[SWait] || cmp_step || (st_q[SExec] && !exec_q) || st_q[SOrderW] || st_q[SOrder2W] ||
      (st_q[SWrite] && w_ready_i);

  // ---- the plan of a change --------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] t_next, t_prev;  // links in a cell's first beat
  assign t_next = r_data_i[64+:PTR_BITS];
  assign t_prev = r_data_i[96+:PTR_BITS];
  logic tail;  // that of a second cell is here
  assign tail = st_q[STailW] && r_valid_i && rcnt_q == 0;

  logic [7:0] steps;
  logic p_item, p_root, p_order, p_write, p_a, p_b, p_free, p_answer, item_new, root_new, new_dir, ix_change;
  assign {p_item, p_root, p_order, p_write, p_a, p_b, p_free, p_answer} = steps;
  logic [7:0] p_status, fail;
  logic [PTR_BITS-1:0] x, x_next, x_prev;  // the cell that is written, and its links
  logic link;                              // one word of another cell is written
  logic [63:0] w_link;
  ki_plan #(.ADDR_BITS(ADDR_BITS), .PTR_BITS(PTR_BITS), .DIR_BITS(DIR_BITS)) u_plan (
      .clk_i, .st_i(st_q), .type_i(op[6:4]), .hk_i(hk), .hi_i(hi), .last_i(last), .sub_i(sub), .add_i(is_add), .set_i(is_set),
      .del_i(is_del), .rpush_i(is_rpush), .hset_i(is_hset), .zadd_i(is_zadd), .zrem_i(is_zrem), .zpopmin_i(is_zpopmin),
      .found_i(found_q), .fi_i(fi_q), .same_i(same_q), .single_i(single_q), .pair_i(pair_q), .c_ptr_i(c_ptr_q), .c_next_i(c_next_q),
      .c_prev_i(c_prev_q), .c_hash_i(c_hash_q), .tail_i(tail), .r_hash_i(r_data_i[63:32]), .r_next_i(t_next), .r_prev_i(t_prev),
      .al_ready_i, .al_addr_i, .fr_ptr_o, .orr_valid_i, .orr_ok_i, .orr_full_i, .orr_empty_i, .orr_dir_i, .orr_first_i, .orr_ptr_i,
      .new_dir_o(new_dir), .dir_o(or_dir_o), .steps_o(steps), .item_new_o(item_new), .root_new_o(root_new), .status_o(p_status),
      .fail_o(fail), .ix_valid_o(ix_change), .ix_op_o, .ix_hash_o, .ix_item_o, .ix_old_o, .ix_new_o, .x_o(x), .next_o(x_next),
      .prev_o(x_prev), .link_o(link), .w_addr_o, .w_strb_o, .w_link_o(w_link));

  // ---- outputs of the steps --------------------------------------------------------------------------------------
  logic [255:0] w_beat;  // of a whole cell
  always_comb begin
    w_beat = body;
    if (rcnt_q == 0) begin
      w_beat[63:0] = {sub ? hi : hk, 7'd0, vlen, 1'b0, slen, 1'b0, klen};
      w_beat[127:64] = {Zero32[31:PTR_BITS], x_prev, Zero32[31:PTR_BITS], x_next};
    end
    w_data_o = w_beat;
    if (link) w_data_o[127:64] = w_link;
  end
  assign w_valid_o  = st_q[SWrite] || link;
  assign w_len_o    = link ? 4'd0 : last[5:2];
  assign w_last_o   = link || rcnt_q == {1'b0, last[5:2]};
  assign ix_valid_o = ix_change || (st_q[SLook] && idle_quiet && !rd_busy_q && !em_busy);
  assign ix_skip_o  = st_q[SLook] ? skip_q : '0;
  assign ix_type_o  = op[6:4];
  assign al_valid_o = st_q[SAlloc];
  assign al_words_o = last;
  assign fr_valid_o = (st_q[SFree] && p_free && idle_quiet && !rd_busy_q) || st_q[SUndoF];
  assign rd_valid_o = st_q[STail] && !rd_busy_q && !em_busy && idle_quiet;
  assign rd_ptr_o   = c_ptr_q;
  assign st_idx_o   = rcnt_q[1:0];

  logic [3:0] want;
  logic score_equal;
  logic [255:0] record;
  ki_zset #(.ON(TYPES[4])) u_zset (
      .clk_i, .st_i(st_q), .take_i(exec_q), .body_i(body), .val_i(val[1:0]), .score_i(score_at), .slen_i(slen), .zrem_i(is_zrem),
      .zpopmin_i(is_zpopmin), .want_o(want), .c_score_i(c_score_q), .equal_o(score_equal), .or_valid_o, .or_op_o, .or_score_o,
      .or_mlen_o, .or_member_o, .orr_valid_i, .orr_score_i, .orr_mlen_i, .orr_member_i, .record_o(record));
  assign or_new_o = new_dir && !st_q[SOrder2];
  assign or_ptr_o = x;

  // ---- next state ------------------------------------------------------------------------------------------------
  // after ALLOC the enabled steps follow one another; an answer that waited for the writes starts with the last of them
  logic [States-1:0] after_alloc, after_item, after_root, after_order, after_write, after_a, after_b;
  assign after_b     = p_free ? to(SFree) : to(SDone);
  assign after_a     = p_b ? to(SLinkB) : after_b;
  assign after_write = p_a ? to(SLinkA) : after_a;
  assign after_order = p_write ? to(SWrite) : after_write;
  assign after_root  = p_order ? to(SOrder) : after_order;
  assign after_item  = p_root ? to(SRoot) : after_root;
  assign after_alloc = p_item ? to(SItem) : after_item;

  logic w_end;  // the last beat of a write leaves
  assign w_end = w_valid_o && w_ready_i && w_last_o;

  logic exec_find_root;  // an item was not found: look at the root
  logic exec_wrong, exec_miss, exec_run;
  logic exec_body;       // the next step needs words of the body that are on their way to their registers
  assign exec_wrong = found_q && c_type_q != op[6:4];
  assign exec_find_root = !found_q && fi_q;
  assign exec_miss = !exec_wrong && !exec_find_root && ((!found_q && !is_add) || (found_q && sub && !fi_q && (is_read || is_remove)));
  assign exec_run = st_q[SExec] && (!chk || good);
  assign exec_body = !exec_q && (is_zrem || is_zrange || (is_zadd && found_q && fi_q));
  logic em_arm, em_start;
  assign em_arm = cmp_step && cmp_last && is_read && fi_q == sub && c_type_q == op[6:4];

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
      else if (is_read) st_d = to(SDone);  // its answer is armed
      else if (is_del || is_lpop || (is_rpop && single_q)) begin
        em_start = 1'b1;
        st_d = to(SRoot);
      end else if (is_rpop) st_d = to(STail);
      else if (is_spop || (is_remove && !is_zrem)) begin
        em_start = 1'b1;
        st_d = to(SItem);
      end else if (is_sadd && found_q && fi_q) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end else if (!rd_busy_q && !exec_body) begin
        if (is_zrem || is_zpopmin) st_d = to(SOrder);
        else if (is_zrange) st_d = to(SRange);
        else if (is_zadd && found_q && fi_q) st_d = to(SScore);
        else if ((is_set || (is_hset && fi_q)) && found_q && same_q) st_d = to(SWrite);
        else st_d = to(SAlloc);
      end
      st_q[SScore]:
      if (score_equal) begin
        em_start = 1'b1;
        st_d = to(SDone);
      end else st_d = to(SOrder);
      st_q[SAlloc]:
      if (al_ready_i) begin
        st_d = al_ok_i ? after_alloc : to(SDone);
        em_start = !al_ok_i;
      end
      st_q[SItem]: if (ix_ready_i) st_d = item_new ? to(SItemW) : after_item;
      st_q[SItemW]: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_item : to(SUndoF);
      st_q[SRoot]: if (ix_ready_i) st_d = root_new ? to(SRootW) : after_root;
      st_q[SRootW]: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_root : to(SUndoI);
      st_q[SOrder]: if (or_ready_i) st_d = to(SOrderW);
      st_q[SOrderW]:
      if (orr_valid_i) begin
        if (is_zrange) begin  // walks ranks; what is not there ends it
          em_start = !orr_ok_i || want == 0;
          st_d = em_start ? to(SDone) : to(SRecord);
        end else if (is_zpopmin) st_d = to(SRecord);
        else if (is_zrem) begin
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
      if (is_zpopmin) begin
        em_start = 1'b1;
        st_d = to(STail);
      end else begin
        em_start = rec_q + 4'd1 == want;
        st_d = em_start ? to(SDone) : to(SRange);
      end
      st_q[SWrite]:
      if (w_end) begin
        em_start = p_answer && !p_a && !p_b;
        st_d = after_write;
      end
      st_q[SLinkA]:
      if (w_ready_i) begin
        em_start = p_answer && !p_b;
        st_d = after_a;
      end
      st_q[SLinkB]:
      if (w_ready_i) begin
        em_start = p_answer;
        st_d = after_b;
      end
      st_q[SFree]: if (fr_valid_o && fr_ready_i) st_d = to(SDone);
      st_q[STail]: if (rd_valid_o && rd_ready_i) st_d = to(STailW);
      st_q[STailW]:
      if (rcnt_q != 0) begin  // its first beat, with lengths and links, is in registers
        em_start = !is_zpopmin;
        st_d = is_zpopmin ? to(SItem) : to(SLinkA);
      end
      st_q[SUndoI]: if (!(p_item && item_new) || ix_ready_i) st_d = to(SUndoR);
      st_q[SUndoR]: if (!(p_root && root_new) || ix_ready_i) st_d = to(SUndoF);
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

  // ---- the answer ------------------------------------------------------------------------------------------------
  logic [7:0] em_status;
  logic [15:0] em_len;
  logic [5:0] em_left, em_from;
  ki_reply u_reply (
      .st_i(st_q), .d_err_i(d_err), .val_i(val), .cmp_i(cmp), .sismember_i(is_sismember), .sadd_i(is_sadd),
      .pop_i(is_lpop || is_rpop), .spop_i(is_spop), .zrem_i(is_zrem), .zpopmin_i(is_zpopmin), .zrange_i(is_zrange),
      .first_i(rcnt_q == 0), .r_vlen_i(r_data_i[31:16]), .r_vleft_i(answer_words(r_data_i[24:16])), .c_vlen_i(c_vlen_q),
      .c_vleft_i(c_vleft_q), .c_slen_i(c_slen_q), .c_sleft_i(c_sleft_q), .wrong_i(exec_wrong), .miss_i(exec_miss),
      .p_status_i(p_status), .fail_i(fail), .orr_full_i, .rec_i(rec_q), .want_i(want), .status_o(em_status), .len_o(em_len),
      .left_o(em_left), .from_o(em_from));

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
  always_comb begin
    cb_we = 1'b0;
    cb_waddr = rcnt_q[3:0];
    cb_wdata = r_data_i;
    if (r_valid_i && !(tail_q && is_zpopmin)) cb_we = 1'b1;
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
      cb_wdata = record;
    end
  end

  // ---- registers -------------------------------------------------------------------------------------------------
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
      else if (st_q[SExec]) cv_q <= exec_run && found_q && !exec_wrong && !exec_miss && (is_read || (is_sadd && fi_q));
      else if (st_q[SLook] || st_q[SStats]) cv_q <= 1'b0;
      else if (st_q[SWrite] && w_end) cv_q <= !is_rpush && !is_zadd;
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
      if (rcnt_q == 0 && !(tail_q && is_zpopmin)) begin
        c_next_q <= t_next;
        c_prev_q <= t_prev;
      end
      if (TYPES[4]) c_score_q <= r_data_i[{c_ptr_q[PTR_BITS-6+:2], 6'd0}+:64];  // the last word of a sorted set's cell
    end
    if (r_valid_i && rcnt_q == 0) {single_q, pair_q} <= {t_next == c_ptr_q, t_next == t_prev};
    else {single_q, pair_q} <= {c_next_q == c_ptr_q, c_next_q == c_prev_q};
    same_q <= c_ptr_q[PTR_BITS-1-:6] == last;
    if (rd_valid_o && rd_ready_i) tail_q <= 1'b1;

    // the second cell: read next, or named by the order unit
    if (st_q[SExec] && is_rpop && !single_q) c_ptr_q <= c_prev_q;
    if (st_q[SOrderW] && orr_valid_i && is_zpopmin) c_ptr_q <= orr_ptr_i;
    if (st_q[SRecord]) rec_q <= rec_q + 4'd1;
    // a written cell is the cell found from here on
    if (st_q[SWrite] && w_end) begin
      c_ptr_q  <= x;
      c_type_q <= op[6:4];
      c_next_q <= x_next;
      c_prev_q <= x_prev;
      c_vlen_q <= {7'd0, vlen};
      c_slen_q <= slen;
      {c_vleft_q, c_sleft_q} <= {answer_words(vlen), answer_words({2'd0, slen})};
      c_hash_q <= sub ? hi : hk;
      fi_q     <= sub;
    end
  end
endmodule
