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
// Forwarding: the last cell stays in the buffer `cb`, with its links. The next request in the queue is compared with it (key and all)
// and, if it is the same, needs neither index nor memory, so a hot key is served at the speed of its answers.
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
    output logic         m_valid_o,
    input  logic         m_ready_i,
    output logic [255:0] m_data_o,
    output logic [  3:0] m_keep_o,   // words that are there, from the lowest
    output logic         m_last_o,
    output logic [ 16:0] m_user_o,
    output logic [  7:0] m_status_o  // of the answer, with its first beat
);
  `include "ki_defs.svh"

  localparam int QueueBits = 2;  // requests that wait on one key: 4
  localparam logic [31:0] Zero32 = 32'd0;

  // ---- the queue -------------------------------------------------------------------------------------------------
  logic [DESC_BITS-1:0] desc_mem[2**QueueBits];
  logic [QueueBits:0] q_wr_q, q_rd_q;
  logic [QueueBits-1:0] q_last_q;
  logic pop, have;
  assign have = q_wr_q != q_rd_q;
  assign desc_full_o = (q_wr_q ^ q_rd_q) == {1'b1, {QueueBits{1'b0}}};
  always_ff @(posedge clk_i) begin
    if (desc_valid_i) desc_mem[q_wr_q[QueueBits-1:0]] <= desc_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      q_wr_q   <= '0;
      q_rd_q   <= '0;
      q_last_q <= '0;
    end else begin
      if (desc_valid_i) begin
        q_wr_q   <= q_wr_q + 1'b1;
        q_last_q <= q_wr_q[QueueBits-1:0];
      end
      if (pop) q_rd_q <= q_rd_q + 1'b1;
    end

  // The oldest request's descriptor, in registers.
  logic [DESC_BITS-1:0] head_q;
  logic [QueueBits:0] q_next;
  assign q_next = q_rd_q + 1'b1;
  always_ff @(posedge clk_i)
    if (pop && q_next != q_wr_q) head_q <= desc_mem[q_next[QueueBits-1:0]];
    else if (pop || !have) head_q <= desc_i;

  logic [7:0] op, d_err;
  logic [6:0] klen, slen;
  logic [8:0] vlen;
  logic [15:0] d_id, d_tag;
  logic [31:0] hk, hi;
  logic d_drop, d_pre;
  assign {op, klen, slen, vlen, d_id, d_tag, hk, hi, d_err, d_drop, d_pre} = head_q;

  logic [5:0] kw, ksw;
  logic [5:0] kw_q, ksw_q, bw_q;  // words of the key, of key and subkey, of the body; from the second clock of a request on
  assign kw  = {2'd0, klen[6:3]} + {5'd0, |klen[2:0]};
  assign ksw = kw + {2'd0, slen[6:3]} + {5'd0, |slen[2:0]};
  always_ff @(posedge clk_i) begin
    kw_q  <= kw;
    ksw_q <= ksw;
    bw_q  <= ksw + vlen[8:3] + {5'd0, |vlen[2:0]};
  end

  logic [4:0] rcnt_q;  // beats of a cell that came; while writing: beats sent
  // The body, in four banks. Read by beats, or (body_any) the four words from body_from on, each still in its bank's lane.
  logic body_any;
  logic [5:0] body_from;
  logic [3:0] body_behind;  // banks whose word is in the next beat
  logic [255:0] body;
  assign body_behind = (4'd1 << body_from[1:0]) - 4'd1;
  for (genvar k = 0; k < 4; k++) begin : g_body
    logic [63:0] bank[16*(2**QueueBits)];
    logic [3:0] at;
    assign at = body_any ? body_from[5:2] + {3'd0, body_behind[k]} : rcnt_q[3:0];
    always_ff @(posedge clk_i) if (body_valid_i) bank[{q_last_q, body_idx_i}] <= body_data_i[k*64+:64];
    assign body[k*64+:64] = bank[{q_rd_q[QueueBits-1:0], at}];
  end

  // ---- state -----------------------------------------------------------------------------------------------------
  localparam logic [4:0] SIdle = 5'd0, SLook = 5'd1, SWait = 5'd2, SRead = 5'd3, SCompare = 5'd4, SExec = 5'd5;
  localparam logic [4:0] SAlloc = 5'd6, SItem = 5'd7, SItemW = 5'd8, SRoot = 5'd9, SRootW = 5'd10, SOrder = 5'd11;
  localparam logic [4:0] SOrderW = 5'd12, SWrite = 5'd13, SLinkA = 5'd14, SLinkB = 5'd15, SAnswer = 5'd16, SFree = 5'd17;
  localparam logic [4:0] SDone = 5'd18, STail = 5'd19, STailW = 5'd20, SUndoI = 5'd21, SUndoR = 5'd22, SUndoF = 5'd23;
  localparam logic [4:0] SRecord = 5'd24, SStats = 5'd25, SOrder2 = 5'd26, SOrder2W = 5'd27, SRange = 5'd28, SScore = 5'd29;
  logic [4:0] st_q, st_d;

  // the cell found: c_*; also the cache of the next request while cv_q
  logic cv_q, fi_q, found_q, eq_q, verified_q;
  logic [PTR_BITS-1:0] c_ptr_q, c_next_q, c_prev_q;
  logic [2:0] c_type_q;
  logic [31:0] c_hash_q;
  logic [15:0] c_vlen_q;
  logic [6:0] c_slen_q;
  logic [63:0] c_score_q;
  logic [WAYS-1:0] skip_q;
  logic rd_busy_q;             // words are still coming
  logic tail_q;                // reading a second cell without comparing

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

  logic idle_quiet;
  assign idle_quiet = outst_q == 0;
  assign busy_o = st_q != SIdle || have || !idle_quiet;

  // ---- the cell buffer: four banks, read at any word, four words from there on -----------------------------------
  logic cb_we;
  logic [3:0] cb_waddr;
  logic [5:0] cb_from, em_idx_q;
  logic [255:0] cb_wdata, cb_banks, cb_rdata;
  logic em_busy_q;
  logic [3:0] cb_behind;
  assign cb_behind = (4'd1 << cb_from[1:0]) - 4'd1;
  assign cb_from = em_busy_q ? em_idx_q : {rcnt_q[3:0], 2'b00};
  for (genvar k = 0; k < 4; k++) begin : g_bank
    logic [63:0] cb[16];
    logic [3:0] at;
    assign at = cb_from[5:2] + {3'd0, cb_behind[k]};
    always_ff @(posedge clk_i) if (cb_we) cb[cb_waddr] <= cb_wdata[k*64+:64];
    // what comes from memory in this clock can leave in it
    assign cb_banks[k*64+:64] = r_valid_i && rcnt_q[3:0] == at ? r_data_i[k*64+:64] : cb[at];
  end
  always_comb
    case (cb_from[1:0])
      2'd0: cb_rdata = cb_banks;
      2'd1: cb_rdata = {cb_banks[63:0], cb_banks[255:64]};
      2'd2: cb_rdata = {cb_banks[127:0], cb_banks[255:128]};
      default: cb_rdata = {cb_banks[191:0], cb_banks[255:192]};
    endcase

  // ---- the answer ------------------------------------------------------------------------------------------------
  // em_idx: the word in lane 0; in the first beat that is the header's, so the words of the value begin in lane 1
  logic em_start, em_end, em_head_q, em_drop_q;
  logic [7:0] em_status, em_status_q;
  logic [15:0] em_len, em_len_q;
  logic [5:0] em_from;
  logic [5:0] em_left_q;  // words, with the header
  logic em_data_ok;
  logic [4:0] em_need;    // the beat of the cell that the last lane needs
  assign em_need = {1'b0, em_idx_q[5:2]} + {4'd0, |em_idx_q[1:0]};
  assign em_data_ok = !rd_busy_q || em_need < rcnt_q || (em_need == rcnt_q && r_valid_i) || (em_head_q && em_left_q == 6'd1);
  assign m_valid_o = em_busy_q && em_data_ok;
  assign m_last_o = em_left_q <= 6'd4;
  assign em_end = m_valid_o && m_ready_i && m_last_o;
  always_comb begin
    m_data_o = cb_rdata;
    if (em_head_q) m_data_o[63:0] = {d_id, em_len_q, 16'd0, em_status_q, op | 8'h80};
    for (int l = 0; l < 4; l++) begin
      m_keep_o[l] = em_left_q > l[5:0] && !em_drop_q;
      if (em_left_q <= l[5:0]) m_data_o[l*64+:64] = '0;
    end
  end
  assign m_user_o = {em_drop_q, d_tag};
  assign m_status_o = em_status_q;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) em_busy_q <= 1'b0;
    else if (em_start) em_busy_q <= 1'b1;
    else if (em_end) em_busy_q <= 1'b0;
  always_ff @(posedge clk_i)
    if (em_start) begin
      em_head_q   <= 1'b1;
      em_drop_q   <= d_drop;
      em_status_q <= em_status;
      em_len_q    <= em_len;
      em_idx_q    <= em_from - 6'd1;
      em_left_q   <= em_len[8:3] + {5'd0, |em_len[2:0]} + 6'd1;
    end else if (m_valid_o && m_ready_i) begin
      em_head_q <= 1'b0;
      em_left_q <= em_left_q - 6'd4;
      em_idx_q  <= em_idx_q + 6'd4;
    end

  // ---- comparing -------------------------------------------------------------------------------------------------
  // a beat of the cell against the request: lengths in word 0, nothing in word 1, then the body
  logic [5:0] cmp_words, cmp_at;
  logic [255:0] cmp_data;
  logic cmp_step, cmp_last, cmp_eq;
  assign cmp_words = fi_q ? ksw_q : kw_q;
  assign cmp_at = cmp_words + 6'd1;  // the last word that counts
  assign cmp_data = st_q == SCompare ? cb_banks : r_data_i;
  logic [3:0] lane_eq;
  always_comb
    for (int l = 0; l < 4; l++) begin
      lane_eq[l] = cmp_data[l*64+:64] == body[l*64+:64] || {1'b0, rcnt_q, l[1:0]} > {2'b0, cmp_at};
      if (rcnt_q == 0 && l == 0) lane_eq[l] = cmp_data[7:0] == {1'b0, klen} && (!fi_q || cmp_data[15:8] == {1'b0, slen});
      if (rcnt_q == 0 && l == 1) lane_eq[l] = 1'b1;
    end
  assign cmp_eq = &lane_eq;
  assign cmp_last = rcnt_q == {1'b0, cmp_at[5:2]};
  assign cmp_step = (st_q == SRead && r_valid_i && !verified_q) || st_q == SCompare;

  // ---- where things are ------------------------------------------------------------------------------------------
  logic has_sub, is_push, is_read, is_remove;
  assign has_sub = slen != 0;
  assign is_push = op == OpLpush || op == OpRpush;
  assign is_read = op == OpHget || op == OpSismember || op == OpZscore;
  assign is_remove = op == OpHdel || op == OpSrem || op == OpZrem;
  logic single, pair, same_words;
  assign single = c_next_q == c_ptr_q;
  assign pair = c_next_q == c_prev_q;
  assign same_words = c_ptr_q[PTR_BITS-1-:6] == last_word;

  // the member of a request and the first word of its value (a score; rank and count): words of the body at any place, read in SExec
  logic [127:0] member_q;
  logic [63:0] value, value_q;
  assign body_from = kw_q + 6'd2;
  if (TYPES[4]) begin : g_zset
    logic [1:0] second, last;  // lanes
    assign second = body_from[1:0] + 2'd1;
    assign last = ksw_q[1:0] + 2'd2;
    assign body_any = st_q == SExec;
    assign value = body[{last, 6'd0}+:64];
    always_ff @(posedge clk_i)
      if (st_q == SExec) begin
        value_q  <= value;
        member_q <= {slen > 7'd8 ? body[{second, 6'd0}+:64] : 64'd0, body[{body_from[1:0], 6'd0}+:64]};
      end
  end else begin : g_zset
    assign body_any = 1'b0;
    assign value = '0;
    assign value_q = '0;
    assign member_q = '0;
  end

  // ---- outputs of the steps --------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] w1_next, w1_prev;
  logic [63:0] w_word1;
  logic [5:0] last_word;  // of the request's cell
  assign last_word = bw_q + 6'd1;
  always_comb begin
    w1_next = l_self_q ? x_q : l_next_q;
    w1_prev = l_self_q ? x_q : l_prev_q;
    if (op == OpZadd) begin
      w1_next = {{(PTR_BITS - DIR_BITS) {1'b0}}, dir_q};
      w1_prev = '0;
    end
    w_word1 = {Zero32[31:PTR_BITS], w1_prev, Zero32[31:PTR_BITS], w1_next};
  end
  logic [PTR_BITS-1:0] a_next, a_prev, b_next;
  assign a_next = a_x_q ? x_q : a_next_q;
  assign a_prev = a_x_q ? x_q : a_prev_q;
  assign b_next = a_x_q ? x_q : b_next_q;
  always_comb begin
    w_valid_o = (st_q == SWrite) || st_q == SLinkA || st_q == SLinkB;
    w_addr_o  = {x_q[ADDR_BITS-1:0], 1'b0};
    w_len_o   = last_word[5:2];
    w_strb_o  = '1;
    w_last_o  = rcnt_q == {1'b0, last_word[5:2]};
    w_data_o  = body;
    if (rcnt_q == 0) w_data_o[127:0] = {w_word1, has_sub ? hi : hk, 7'd0, vlen, 1'b0, slen, 1'b0, klen};
    if (st_q == SLinkA) begin
      w_addr_o = {a_addr_q[ADDR_BITS-1:0], 1'b0};
      w_len_o  = '0;
      w_last_o = 1'b1;
      w_strb_o = a_both_q ? 32'h0000_ff00 : 32'h0000_f000;
      w_data_o[127:64] = {Zero32[31:PTR_BITS], a_prev, Zero32[31:PTR_BITS], a_next};
    end
    if (st_q == SLinkB) begin
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
    case (st_q)
      SLook: begin
        ix_valid_o = idle_quiet && !rd_busy_q && !em_busy_q;
        ix_skip_o  = skip_q;
      end
      SItem: begin
        ix_valid_o = p_item_q;
        ix_op_o    = p_item_op_q;
        ix_hash_o  = p_item_hash_q;
        ix_item_o  = 1'b1;
        ix_old_o   = p_old_q;
      end
      SRoot: begin
        ix_valid_o = p_root_q;
        ix_op_o    = p_root_op_q;
        ix_hash_o  = hk;
        ix_item_o  = 1'b0;
        ix_old_o   = p_rold_q;
        ix_new_o   = p_rnew_x_q ? x_q : p_rnew_q;
      end
      SUndoI: begin
        ix_valid_o = undo_item;
        ix_op_o    = IxDelete;
        ix_hash_o  = hi;
        ix_item_o  = 1'b1;
        ix_old_o   = x_q;
      end
      SUndoR: begin
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
  assign al_valid_o = st_q == SAlloc;
  assign al_words_o = last_word;
  assign fr_valid_o = (st_q == SFree && p_free_q && idle_quiet && !rd_busy_q) || st_q == SUndoF;
  assign fr_ptr_o   = st_q == SUndoF ? x_q : free_q;
  assign rd_valid_o = st_q == STail && !rd_busy_q && !em_busy_q && idle_quiet;
  assign rd_ptr_o   = c_ptr_q;
  assign st_idx_o   = rcnt_q[1:0];

  always_comb begin
    or_valid_o  = st_q == SOrder || st_q == SOrder2 || st_q == SRange;
    or_op_o     = OrInsert;
    or_new_o    = p_new_dir_q;
    or_dir_o    = dir_q;
    or_score_o  = value_q;
    or_mlen_o   = slen[4:0];
    or_member_o = member_q;
    or_ptr_o    = x_q;
    if (st_q == SOrder2) or_op_o = OrRemove;
    if (st_q == SOrder2) or_score_o = c_score_q;
    if (st_q == SOrder2) or_new_o = 1'b0;
    if (st_q == SOrder && op == OpZrem) begin
      or_op_o    = OrRemove;
      or_score_o = c_score_q;
    end
    if (st_q == SOrder && op == OpZpopmin) or_op_o = OrPopmin;
    if (st_q == SRange) begin
      or_op_o    = OrAt;
      or_score_o = {32'd0, rank_q};
    end
  end

  // ---- next state ------------------------------------------------------------------------------------------------
  // after ALLOC the enabled steps follow one another
  logic [4:0] after_alloc, after_item, after_root, after_order, after_write, after_a, after_b, after_answer;
  assign after_answer = p_free_q ? SFree : SDone;
  assign after_b      = p_answer_q ? SAnswer : after_answer;
  assign after_a      = p_b_q ? SLinkB : after_b;
  assign after_write  = p_a_q ? SLinkA : after_a;
  assign after_order  = p_write_q ? SWrite : after_write;
  assign after_root   = p_order_q ? SOrder : after_order;
  assign after_item   = p_root_q ? SRoot : after_root;
  assign after_alloc  = p_item_q ? SItem : after_item;

  logic quick;
  assign quick = (op == OpGet || is_read) && fi_q == has_sub && c_type_q == op[6:4];
  logic exec_find_root;  // an item was not found: look at the root
  logic exec_wrong, exec_miss;
  assign exec_wrong = found_q && c_type_q != op[6:4];
  assign exec_find_root = !found_q && fi_q;
  assign exec_miss = !exec_wrong && !exec_find_root &&
      ((!found_q && !(op == OpSet || is_push || op == OpHset || op == OpSadd || op == OpZadd)) ||
       (found_q && has_sub && !fi_q && (is_read || is_remove)));

  always_comb begin
    st_d = st_q;
    pop = 1'b0;
    em_start = 1'b0;
    em_status = StOk;
    em_len = 16'd0;
    em_from = 6'd0;
    case (st_q)
      SIdle:
      if (have) begin
        if (d_drop || d_err != StOk || op == OpPing) begin
          em_start = 1'b1;
          em_status = d_err;
          st_d = SDone;
        end else if (op == OpStats) st_d = SStats;
        else if (d_pre) st_d = SWait;
        else if (cv_q && fi_q == has_sub) st_d = SCompare;
        else st_d = SLook;
      end
      SLook: if (ix_valid_o && ix_ready_i) st_d = SWait;
      SWait: if (ixr_valid_i && ixr_op_i == IxLookup) st_d = ixr_hit_i ? SRead : SExec;
      SRead: begin
        if (cmp_step && cmp_last && eq_q && cmp_eq) begin
          st_d = SExec;
          if (quick) begin  // a read that hits: the answer starts with the clock of the last comparison
            em_start = 1'b1;
            em_len = op == OpSismember ? 16'd0 : rcnt_q == 0 ? r_data_i[31:16] : c_vlen_q;
            em_from = cmp_at + 6'd1;
            st_d = SDone;
          end
        end else if (!rd_busy_q) st_d = SLook;  // somebody else's fingerprint
      end
      SCompare: if (!cmp_eq) st_d = SLook;
      else if (cmp_last) begin
        st_d = SExec;
        if (quick) begin
          em_start = 1'b1;
          em_len = op == OpSismember ? 16'd0 : c_vlen_q;
          em_from = cmp_at + 6'd1;
          st_d = SDone;
        end
      end
      SExec:
      if (exec_wrong) begin
        em_start = 1'b1;
        em_status = StWrongType;
        st_d = SDone;
      end else if (exec_find_root) st_d = SLook;
      else if (exec_miss) begin
        em_start = 1'b1;
        em_status = StMiss;
        st_d = SDone;
      end else
        case (op)
          OpGet, OpHget, OpSismember, OpZscore: begin
            em_start = 1'b1;
            em_len = op == OpSismember ? 16'd0 : c_vlen_q;
            em_from = 6'd2 + (has_sub ? ksw_q : kw_q);
            st_d = SDone;
          end
          OpDel: begin
            em_start = 1'b1;
            st_d = SRoot;
          end
          OpLpop: begin
            em_start = 1'b1;
            em_len = c_vlen_q;
            em_from = 6'd2 + kw_q;
            st_d = SRoot;
          end
          OpRpop:
          if (single) begin
            em_start = 1'b1;
            em_len = c_vlen_q;
            em_from = 6'd2 + kw_q;
            st_d = SRoot;
          end else st_d = STail;
          OpSpop: begin
            em_start = 1'b1;
            em_len = {9'd0, c_slen_q};
            em_from = 6'd2 + kw_q;
            st_d = SItem;
          end
          OpHdel, OpSrem: begin
            em_start = 1'b1;
            st_d = SItem;
          end
          OpZrem: if (!rd_busy_q) st_d = SOrder;
          OpZpopmin: if (!rd_busy_q) st_d = SOrder;
          OpZrange: if (!rd_busy_q) st_d = SRange;
          OpSadd:
          if (found_q && fi_q) begin
            em_start = 1'b1;
            em_status = StReplaced;
            st_d = SDone;
          end else if (!rd_busy_q) st_d = SAlloc;
          OpZadd:
          if (found_q && fi_q) begin
            if (!rd_busy_q) st_d = SScore;
          end else if (!rd_busy_q) st_d = SAlloc;
          OpSet, OpHset: if (!rd_busy_q) st_d = found_q && (op == OpSet || fi_q) && same_words ? SWrite : SAlloc;
          default: if (!rd_busy_q) st_d = SAlloc;
        endcase
      SScore:
      if (c_score_q == value_q) begin
        em_start = 1'b1;
        em_status = StReplaced;
        st_d = SDone;
      end else st_d = SOrder;
      SAlloc:
      if (al_ready_i) begin
        if (al_ok_i) st_d = after_alloc;
        else begin
          em_start = 1'b1;
          em_status = StNoMemory;
          st_d = SDone;
        end
      end
      SItem: if (ix_ready_i) st_d = p_item_op_q == IxInsert ? SItemW : after_item;
      SItemW: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_item : SUndoF;
      SRoot: if (ix_ready_i) st_d = p_root_op_q == IxInsert ? SRootW : after_root;
      SRootW: if (ixr_valid_i && ixr_op_i == IxInsert) st_d = ixr_hit_i ? after_root : SUndoI;
      SOrder: if (or_ready_i) st_d = SOrderW;
      SOrderW:
      if (orr_valid_i) begin
        if (op == OpZpopmin) st_d = SRecord;
        else if (op == OpZrem) begin
          em_start = 1'b1;
          st_d = SItem;
        end else if (orr_ok_i) st_d = found_q && fi_q ? SOrder2 : after_order;
        else if (found_q && fi_q) begin
          em_start = 1'b1;
          em_status = orr_full_i ? StFull : StNoMemory;
          st_d = SDone;
        end else st_d = SUndoI;
      end
      SOrder2: if (or_ready_i) st_d = SOrder2W;
      SOrder2W: if (orr_valid_i) st_d = SWrite;
      SRange: if (or_ready_i) st_d = SOrderW;
      SRecord: begin
        if (op == OpZpopmin) begin
          em_start = 1'b1;
          em_len = 16'd32;
          em_from = 6'd0;
          st_d = STail;
        end else if (rec_q + 4'd1 == want_q) begin
          em_start = 1'b1;
          em_len = {7'd0, want_q, 5'd0};
          em_from = 6'd0;
          st_d = SDone;
        end else st_d = SRange;
      end
      SWrite: if (w_ready_i && w_last_o) st_d = after_write;
      SLinkA: if (w_ready_i) st_d = after_a;
      SLinkB: if (w_ready_i) st_d = after_b;
      SFree: if (fr_valid_o && fr_ready_i) st_d = SDone;
      STail: if (rd_valid_o && rd_ready_i) st_d = STailW;
      STailW:
      if (rcnt_q != 0) begin  // its first beat, with lengths and links, is in registers
        if (op == OpZpopmin) st_d = SItem;
        else begin
          em_start = 1'b1;
          em_len = c_vlen_q;
          em_from = 6'd2 + kw_q;
          st_d = SLinkA;
        end
      end
      SUndoI: if (!undo_item || ix_ready_i) st_d = SUndoR;
      SUndoR: if (!undo_root || ix_ready_i) st_d = SUndoF;
      SUndoF:
      if (fr_ready_i) begin
        em_start = 1'b1;
        em_status = fail_q;
        st_d = SDone;
      end
      SStats:
      if (rcnt_q == 5'd3) begin
        em_start = 1'b1;
        em_len = 16'd128;
        em_from = 6'd0;
        st_d = SDone;
      end
      SDone:
      if ((!em_busy_q || em_end) && !rd_busy_q) begin
        pop  = 1'b1;
        st_d = SIdle;
      end
      default: st_d = SIdle;
    endcase
    // the answer starts with the clock that ends the step before it
    if (st_d == SAnswer) begin
      em_start = 1'b1;
      em_status = p_status_q;
      st_d = after_answer;
    end
    // ZRANGE walks ranks; what is not there ends it
    if (st_q == SOrderW && orr_valid_i && op == OpZrange) begin
      em_start = 1'b0;
      st_d = SRecord;
      if (!orr_ok_i || want_q == 0) begin
        em_start = 1'b1;
        em_status = rec_q == 0 ? StMiss : StOk;
        em_len = {7'd0, rec_q, 5'd0};
        em_from = 6'd0;
        st_d = SDone;
      end
    end
  end

  // ---- writing the cell buffer -----------------------------------------------------------------------------------
  logic [63:0] rec_score_q;
  logic [4:0] rec_mlen_q;
  logic [127:0] rec_member_q;
  always_comb begin
    cb_we = 1'b0;
    cb_waddr = rcnt_q[3:0];
    cb_wdata = r_data_i;
    if (r_valid_i && !(tail_q && op == OpZpopmin)) cb_we = 1'b1;
    if (st_q == SWrite && w_ready_i) begin
      cb_we = 1'b1;
      cb_wdata = w_data_o;
    end
    if (st_q == SStats) begin
      cb_we = 1'b1;
      cb_wdata = st_data_i;
    end
    if (st_q == SRecord) begin
      cb_we = 1'b1;
      cb_waddr = rec_q;
      cb_wdata = {rec_member_q, 59'd0, rec_mlen_q, rec_score_q};
    end
  end

  // ---- registers -------------------------------------------------------------------------------------------------
  logic [PTR_BITS-1:0] t_next, t_prev;  // links in a cell's first beat
  assign t_next = r_data_i[64+:PTR_BITS];
  assign t_prev = r_data_i[96+:PTR_BITS];
  logic w_fire, w_end;
  assign w_fire = w_valid_o && w_ready_i;
  assign w_end  = w_fire && w_last_o;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      st_q <= SIdle;
      outst_q <= '0;
      rd_busy_q <= 1'b0;
      cv_q <= 1'b0;
      rcnt_q <= '0;
    end else begin
      st_q <= st_d;
      outst_q <= outst_q + {5'd0, w_end} - {5'd0, b_valid_i};
      if (r_valid_i && r_last_i) rd_busy_q <= 1'b0;
      else if ((ixr_valid_i && ixr_op_i == IxLookup && ixr_hit_i) || (rd_valid_o && rd_ready_i)) rd_busy_q <= 1'b1;
      // what rcnt counts changes with the state
      if (ixr_valid_i && ixr_op_i == IxLookup || (rd_valid_o && rd_ready_i)) rcnt_q <= '0;
      else if (r_valid_i || st_q == SCompare || st_q == SStats || st_q == SWrite) rcnt_q <= rcnt_q + {4'd0, st_q != SWrite || w_ready_i};
      else if (!rd_busy_q) rcnt_q <= '0;
      // the cache lives from one request to the next in the queue
      if (st_q == SIdle && !have && idle_quiet) cv_q <= 1'b0;
      else if ((st_q == SRead || st_q == SCompare || st_q == SScore) && st_d == SDone) cv_q <= 1'b1;
      else if (st_q == SExec && st_d == SDone)
        cv_q <= found_q && !exec_wrong && !exec_miss;
      else if (st_q == SExec || st_q == SLook || st_q == SStats) cv_q <= 1'b0;
      else if (st_q == SWrite && w_end) cv_q <= op != OpRpush && op != OpZadd;
    end

  always_ff @(posedge clk_i) begin
    // descriptor words needed out of order
    if (st_q == SIdle && have) begin
      skip_q <= '0;
      fi_q <= has_sub;
      found_q <= 1'b0;
      rec_q <= '0;
      tail_q <= 1'b0;
      p_status_q <= StOk;
      fail_q <= StNoMemory;
      {p_item_q, p_root_q, p_order_q, p_write_q, p_a_q, p_b_q, p_free_q, p_answer_q} <= '0;
      {p_rnew_x_q, p_new_dir_q, l_self_q, a_both_q, a_x_q} <= '0;
      p_item_hash_q <= hi;
    end
    // lookup
    if (ixr_valid_i && ixr_op_i == IxLookup) begin
      c_ptr_q  <= ixr_ptr_i;
      c_type_q <= ixr_type_i;
      skip_q   <= skip_q | ixr_way_i | (ixr_way_i - 1'b1);
      found_q  <= 1'b0;
      eq_q     <= 1'b1;
      verified_q <= 1'b0;
    end
    if (st_d == SCompare && st_q != SCompare) eq_q <= 1'b1;
    if (cmp_step) begin
      eq_q <= eq_q && cmp_eq;
      if (cmp_last && eq_q && cmp_eq) begin
        found_q <= 1'b1;
        verified_q <= 1'b1;
      end
    end
    if (st_q == SCompare && st_d == SLook) fi_q <= has_sub;
    if (st_q == SExec && exec_find_root && !exec_wrong) begin
      fi_q   <= 1'b0;
      skip_q <= '0;
    end
    if (r_valid_i) begin
      if (rcnt_q == 0) {c_hash_q, c_vlen_q, c_slen_q} <= {r_data_i[63:16], r_data_i[14:8]};
      if (rcnt_q == 0 && !(tail_q && op == OpZpopmin)) begin
        c_next_q <= t_next;
        c_prev_q <= t_prev;
      end
      if (TYPES[4]) c_score_q <= r_data_i[{c_ptr_q[PTR_BITS-6+:2], 6'd0}+:64];  // the last word of a sorted set's cell
    end
    if (rd_valid_o && rd_ready_i) tail_q <= 1'b1;
    if (st_q == SExec) dir_q <= c_next_q[DIR_BITS-1:0];

    // ---- the plan
    if (st_q == SExec && !exec_find_root) begin
      // defaults that most changes share
      p_old_q  <= c_ptr_q;
      p_rold_q <= c_ptr_q;
      p_rnew_q <= c_next_q;
      free_q   <= c_ptr_q;
      l_next_q <= c_next_q;
      l_prev_q <= c_prev_q;
      a_addr_q <= c_next_q;
      a_prev_q <= c_prev_q;
      a_next_q <= c_next_q;
      b_addr_q <= c_prev_q;
      b_next_q <= c_next_q;
      case (op)
        OpSet, OpHset, OpSadd, OpZadd, OpLpush, OpRpush: begin
          p_write_q  <= 1'b1;
          p_answer_q <= 1'b1;
          if (!found_q) begin
            // the first of its key
            l_self_q    <= op != OpSet && op != OpZadd;
            p_root_q    <= 1'b1;
            p_root_op_q <= IxInsert;
            p_rnew_x_q  <= 1'b1;
            p_item_q    <= has_sub;
            p_item_op_q <= IxInsert;
            p_order_q   <= op == OpZadd;
            p_new_dir_q <= 1'b1;
          end else if (op == OpSet || ((op == OpHset || op == OpZadd) && fi_q)) begin
            // a new value in the place of an old one
            if (op != OpSet) p_status_q <= StReplaced;
            if (same_words || op == OpZadd) x_q <= c_ptr_q;
            else begin
              p_free_q    <= 1'b1;
              p_root_q    <= 1'b1;
              p_root_op_q <= IxUpdate;
              p_rnew_x_q  <= 1'b1;
              p_item_q    <= has_sub;
              p_item_op_q <= IxUpdate;
              if (op == OpHset) begin
                l_self_q <= single;
                p_a_q    <= !single;
                p_b_q    <= !single && !pair;
                a_both_q <= pair;
                a_x_q    <= 1'b1;
              end
            end
          end else begin
            // one more: before the cell that the root names
            p_item_q    <= has_sub;
            p_item_op_q <= IxInsert;
            p_order_q   <= op == OpZadd;
            if (op != OpZadd) begin
              p_root_q    <= op != OpRpush;
              p_root_op_q <= IxUpdate;
              p_rnew_x_q  <= 1'b1;
              l_next_q    <= c_ptr_q;
              p_a_q       <= 1'b1;
              p_b_q       <= !single;
              a_addr_q    <= c_ptr_q;
              a_both_q    <= single;
              a_x_q       <= 1'b1;
            end
          end
        end
        OpDel: begin
          p_root_q    <= 1'b1;
          p_root_op_q <= IxDelete;
          p_free_q    <= 1'b1;
        end
        default: begin
          // remove the cell found (HDEL, SREM, SPOP, LPOP, RPOP of one; ZREM, ZPOPMIN have no ring)
          p_item_q      <= op[6:4] != TyList;
          p_item_op_q   <= IxDelete;
          p_item_hash_q <= c_hash_q;
          p_root_q      <= 1'b1;
          p_root_op_q   <= single && op[6:4] != TyZset ? IxDelete : IxUpdate;
          p_free_q      <= 1'b1;
          p_a_q         <= !single && op[6:4] != TyZset;
          p_b_q         <= !single && !pair && op[6:4] != TyZset;
          a_both_q      <= pair;
          if (op == OpZrange) want_q <= value[63:32] > 32'd14 ? 4'd14 : value[35:32];
          if (op == OpZrange) rank_q <= value[31:0];
          if (pair) begin
            a_next_q <= c_next_q;  // one remains: a ring of itself
            a_prev_q <= c_next_q;
          end
          if (op == OpRpop && !single) c_ptr_q <= c_prev_q;  // the tail is read next
        end
      endcase
    end
    if (st_q == SAlloc && al_ready_i) x_q <= {bw_q + 6'd1, al_addr_i};
    if (st_q == SOrderW && orr_valid_i) begin
      {rec_score_q, rec_mlen_q, rec_member_q} <= {orr_score_i, orr_mlen_i, orr_member_i};
      if (op == OpZadd) begin
        if (orr_ok_i) dir_q <= orr_dir_i;
        fail_q <= orr_full_i ? StFull : StNoMemory;
      end
      if (op == OpZrem || op == OpZpopmin) begin
        p_order_q   <= 1'b0;
        p_root_op_q <= orr_empty_i ? IxDelete : IxUpdate;
        p_rnew_q    <= orr_first_i;
      end
      if (op == OpZpopmin) begin
        p_old_q  <= orr_ptr_i;
        p_rold_q <= orr_ptr_i;
        free_q   <= orr_ptr_i;
        c_ptr_q  <= orr_ptr_i;
      end
    end
    if (st_q == SRecord) begin
      rec_q  <= rec_q + 4'd1;
      rank_q <= rank_q + 32'd1;
    end
    // the second cell is here: unlink it (RPOP), or take its hash (ZPOPMIN)
    if (st_q == STailW && r_valid_i) begin
      if (op == OpZpopmin && rcnt_q == 0) p_item_hash_q <= r_data_i[63:32];
      if (op == OpRpop && rcnt_q == 0) begin
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
    if (st_q == SWrite && w_end) begin
      c_ptr_q  <= x_q;
      c_type_q <= op[6:4];
      c_next_q <= w1_next;
      c_prev_q <= w1_prev;
      c_vlen_q <= {7'd0, vlen};
      c_slen_q <= slen;
      c_hash_q <= has_sub ? hi : hk;
      fi_q     <= has_sub;
    end
  end
endmodule
