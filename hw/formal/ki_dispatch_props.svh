// The crossbar from the parser to the merged answers. Parser, contexts, index, allocator, order units and memory ports are cut away: their
// outputs are free but for what is assumed here. So the contract of a context is exactly these assumptions, and the proof holds
// whatever a context does inside. Real are dispatch, the locks, every arbiter, and the merge.
//
// One request, any request, is followed by its tag from the parser to the last beat of its answer; one key, any key, by its hash.
localparam int FQ = 2;  // requests that a context holds here (4 in the RTL: the depth costs proof time and shows nothing else)
`ifdef EAGER
localparam int FK = 0;  // contexts and sink go on at once: so the bounds of waiting are within reach of the proof's depth
`else
localparam int FK = 2;  // clocks that a context, or the sink, may think before it goes on
`endif
(* anyconst *) logic [15:0] f_tag;
(* anyconst *) logic [31:0] f_hk;
logic f_past = 1'b0;
initial assume (!rst_ni);
always @(posedge clk_i) f_past <= 1'b1;
always @(posedge clk_i) if (f_past) assume (rst_ni);
always @(*) assume (f_tag[15:3] == 0 && f_hk[31:2] == 0);

// ---- the parser: holds what it offers; tags on their way are different (the network side's slots) ---------------------------------
logic f_offered_q;  // the followed request was offered, and taken
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_offered_q <= 1'b0;
  else if (p_take && p_tag == f_tag) f_offered_q <= 1'b1;
always @(posedge clk_i)
  if (f_past && $past(rst_ni) && rst_ni && $past(p_valid && !p_take)) begin
    assume (p_valid && $stable({p_op, p_err, p_klen, p_slen, p_vlen, p_tag, p_hk, p_hi, p_drop}));
  end
always @(*) begin
  if (p_valid && f_offered_q) assume (p_tag != f_tag);
  if (p_valid && !p_plain) assume (p_op[6:4] <= 3'd4 && p_klen != 0);  // what else is an error of the parser's
  if (p_valid) assume (p_hk[31:2] == 0 && p_tag[15:3] == 0);                 // they are only compared: four keys, eight requests do
  if (p_valid) assume (p_klen <= 7'd8 && p_slen <= 7'd8 && p_vlen == 0);    // bodies of two words at most
  if (!rst_ni) assume (!p_valid);
  assume (ix_ready);  // cleared after reset, and ready for ever after
end

// ---- the contexts' contract --------------------------------------------------------------------------------------------
logic [N*3-1:0] f_cnt;            // requests in a context that are not answered
logic [N-1:0] f_in, f_out, f_mid;  // one enters, one is answered; inside an answer
logic [N*3-1:0] f_lazy;           // clocks without a beat that could come
logic f_here, f_sent, f_done;     // the followed request is in a context; its answer has left the context; and the core
logic [N-1:0] f_ctx;
logic [2:0] f_ahead;              // requests before it there
logic [2:0] f_sink;
assign f_in  = p_take ? target : '0;
assign f_out = m_v & m_rdy & m_last;
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) begin
    {f_cnt, f_mid, f_lazy, f_here, f_sent, f_done, f_ctx, f_ahead, f_sink} <= '0;
  end else begin
    for (int i = 0; i < N; i++) begin
      f_cnt[i*3+:3] <= f_cnt[i*3+:3] + {2'd0, f_in[i]} - {2'd0, f_out[i]};
      if (m_v[i] && m_rdy[i]) f_mid[i] <= !m_last[i];
      // lazy: an answer is due, or the context is idle and keeps its lock, or says it is full with room left
      f_lazy[i*3+:3] <= f_in[i] || m_v[i] || !busy[i] ? 3'd0 : f_lazy[i*3+:3] + 3'd1;
    end
    if (p_take && p_tag == f_tag) begin
      f_here <= 1'b1;
      f_ctx  <= target;
    end
    for (int i = 0; i < N; i++) begin
      if (p_take && p_tag == f_tag && target[i]) f_ahead <= f_cnt[i*3+:3] - {2'd0, f_out[i]};
      if (f_here && f_ctx[i] && f_out[i] && !f_sent) begin
        if (f_ahead == 0) f_sent <= 1'b1;
        else f_ahead <= f_ahead - 3'd1;
      end
    end
    if (m_end && m_axis_tuser_o[15:0] == f_tag) f_done <= 1'b1;
    f_sink <= m_axis_tready_i ? 3'd0 : f_sink + 3'd1;
  end
for (genvar i = 0; i < N; i++) begin : g_f
  logic [2:0] cnt;
  logic mine;
  assign cnt  = f_cnt[i*3+:3];
  assign mine = f_here && f_ctx[i] && f_ahead == 0 && !f_sent;
  always @(*) begin
    if (cnt != 0) assume (busy[i]);
    if (!rst_ni) assume (!busy[i]);
    assume (!full[i] || busy[i]);
    if (cnt >= FQ) assume (full[i]);
    if (m_v[i]) assume (cnt != 0 && (m_bus[i*MW+MW-25+:16] == f_tag) == mine);
    assume (m_req[i] ? cnt != 0 : !m_v[i]);  // asks when it has a beat, in vain only if it will have one
    if (f_mid[i]) assume (!m_v[i] || m_last[i]);  // two beats at most
    if (f_lazy[i*3+:3] >= FK) assume (cnt != 0 ? m_v[i] : !busy[i]);
  end
  always @(posedge clk_i)
    if (f_past && $past(rst_ni) && rst_ni) begin
      if ($past(m_v[i] && !m_rdy[i])) assume (m_v[i] && $stable({m_bus[i*MW+:MW], m_last[i]}));
      if ($past(cx_v[i] && !cx_rdy[i])) assume (cx_v[i]);
      if ($past(al_v[i] && !al_rdy[i])) assume (al_v[i]);
      if ($past(fr_v[i] && !fr_rdy[i])) assume (fr_v[i]);
    end
  always @(posedge clk_i) if (f_past && $past(!busy[i] && !f_in[i])) assume (!busy[i]);  // nobody wakes by itself
end
always @(*) if (f_sink >= FK) assume (m_axis_tready_i);

// ---- nothing dropped, nothing twice ---------------------------------------------------------------------------------------------
logic [N-1:0] f_to, f_mine;
logic [5:0] f_left, f_at;  // of the body: rows of four words to come, the next one
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) {f_to, f_left, f_at, f_mine} <= '0;
  else begin
    if (p_take) begin
      f_to   <= target;
      f_left <= p_drop || p_err != StOk || p_words == 0 ? 6'd0 : {2'd0, p_last[5:2]} + 6'd1;
      f_at   <= '0;
    end else if (f_left != 0) begin
      f_left <= f_left - 6'd1;
      f_at   <= f_at + 6'd1;
    end
    // contexts that work on the followed key
    for (int i = 0; i < N; i++) f_mine[i] <= f_in[i] ? !p_plain && p_hk == f_hk : f_mine[i] && busy[i];
  end
logic [7:0] f_wait, f_age, f_ixw, f_alw, f_frw;
(* anyconst *) logic [ID_BITS-1:0] f_who;
always @(*) assume ({1'b0, f_who} < N);
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) {f_wait, f_age, f_ixw, f_alw, f_frw} <= '0;
  else begin
    f_wait <= p_valid && !p_take ? f_wait + 8'd1 : 8'd0;
    f_age  <= f_here && !f_done ? f_age + 8'd1 : 8'd0;
    f_ixw  <= cx_v[f_who] && !cx_rdy[f_who] ? f_ixw + 8'd1 : 8'd0;
    f_alw  <= al_v[f_who] && !al_rdy[f_who] ? f_alw + 8'd1 : 8'd0;
    f_frw  <= fr_v[f_who] && !fr_rdy[f_who] ? f_frw + 8'd1 : 8'd0;
  end
always @(posedge clk_i)
  if (rst_ni) begin
    a_one_context : assert (!p_take || (|target && (target & (target - 1'b1)) == '0));
    a_room : assert ((f_in & full) == '0);
    a_type : assert (!p_take || p_plain || (f_in & ~can) == '0);
    a_body : assert (copying_q == (f_left != 0) && (!copying_q || (copy_to_q == f_to && f_at == copy_q)));
    a_body_whole : assert (!p_take || f_left == 0);
    // one key at one place, and in order: whoever works on it is given the next request on it too
    a_one_place : assert ((f_mine & busy & ((f_mine & busy) - 1'b1)) == '0);
    a_in_order : assert (!(p_take && !p_plain && p_hk == f_hk && |(f_mine & busy)) || target == (f_mine & busy));
    // and nobody is given a request beside the key that he holds
    for (int i = 0; i < N; i++) assert (!(f_in[i] && busy[i]) || (!p_plain && f_mine[i] == (p_hk == f_hk)));
    // the answer: once, after the request, from where the request went
`ifndef INDUCT  // the merge's part has its own induction
    a_asked : assert (!(m_axis_tvalid_o && m_axis_tuser_o[15:0] == f_tag) || (f_here && !f_done && m_from == f_ctx));
    a_once : assert (!(f_done && m_end && m_axis_tuser_o[15:0] == f_tag));
`endif
    // what ties locks and copying to the monitors: with it dispatch needs no depth (task induct)
    for (int i = 0; i < N; i++) assert (!busy[i] || f_mine[i] == (keyed_q[i] && lock_q[i*32+:32] == f_hk));
    for (int i = 0; i < N; i++)
      for (int j = i + 1; j < N; j++)
        assert (!(busy[i] && busy[j] && keyed_q[i] && keyed_q[j] && lock_q[i*32+:32] == lock_q[j*32+:32]));
    a_copy : assert (!copying_q || (copy_q <= copy_last_q && f_left == {2'd0, copy_last_q - copy_q} + 6'd1));
    // not starved: the parser, the answer, and each context at the index, at the allocator, and giving back
`ifdef EAGER
    a_taken : assert (f_wait <= FWait);
    a_answered : assert (f_age <= FAge);
`endif
`ifndef INDUCT
    a_index : assert (f_ixw <= 2 * N);
    a_alloc : assert (f_alw <= N);
    a_free : assert (f_frw <= N);
`endif
    c_queued : cover (f_done && f_ahead == 0 && &busy);
  end
// waiting is bounded if contexts and sink are: bounds of two contexts, two requests each, answers of two beats
localparam int FWait = 6, FAge = 12;
