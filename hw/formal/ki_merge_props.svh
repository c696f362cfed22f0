// One input, any input, is followed: its beats are numbered as they are taken, and must leave in that order with their data.
// Other inputs are free. Inputs keep valid and data until taken (the stream's rule); the output is stalled at will.
(* anyconst *) logic [$clog2(N)-1:0] f_who;
logic f_past = 1'b0;
initial assume (!rst_ni);
always @(posedge clk_i) f_past <= 1'b1;
always @(posedge clk_i) if (f_past) assume (rst_ni);
always @(*) assume ({1'b0, f_who} < N);

always @(posedge clk_i)
  if (f_past && $past(rst_ni) && rst_ni)
    for (int i = 0; i < N; i++)
      if ($past(s_valid_i[i] && !s_ready_o[i])) begin
        assume (s_valid_i[i]);
        assume ($stable(s_data_i[i*W+:W]) && $stable(s_last_i[i]));
      end

// a beat that was taken is the one in the register one clock later, until the sink takes it
logic f_taken, f_full, f_last;
logic [W-1:0] f_data;
assign f_taken = s_valid_i[f_who] && s_ready_o[f_who];
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_full <= 1'b0;
  else if (f_taken) f_full <= 1'b1;
  else if (m_valid_o && m_ready_i && m_from_o[f_who]) f_full <= 1'b0;
always_ff @(posedge clk_i) if (f_taken) {f_data, f_last} <= {s_data_i[f_who*W+:W], s_last_i[f_who]};
// inside a packet nobody else's beat leaves
logic f_in;
logic [N-1:0] f_from;
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_in <= 1'b0;
  else if (m_valid_o && m_ready_i) begin
    f_in   <= !m_last_o;
    f_from <= m_from_o;
  end
// patience: beats of others that left while the followed one was asking. Packets have at most 2 beats here and keep coming.
logic [4:0] f_wait, f_len;
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) {f_wait, f_len} <= '0;
  else begin
    if (!s_valid_i[f_who] || f_taken) f_wait <= '0;
    else if (|(s_valid_i & s_ready_o)) f_wait <= f_wait + 5'd1;
    if (|(s_valid_i & s_ready_o)) f_len <= |(s_valid_i & s_ready_o & s_last_i) ? 5'd0 : f_len + 5'd1;
  end
always @(posedge clk_i)
  if (rst_ni) begin
    if (f_len == 5'd1 && |(s_valid_i & s_ready_o)) assume (|(s_valid_i & s_ready_o & s_last_i));
    a_one_taken : assert ($onehot0(s_valid_i & s_ready_o));
    a_not_dropped : assert (!f_full || (m_valid_o && m_from_o[f_who]));
    a_not_duplicated : assert (!(m_valid_o && m_from_o[f_who]) || f_full);
    a_data : assert (!f_full || (m_data_o == f_data && m_last_o == f_last));
    a_not_mixed : assert (!(m_valid_o && f_in) || m_from_o == f_from);
`ifndef INDUCT
    a_not_starved : assert (f_wait <= 2 * N);
`endif
    // what ties register, lock and monitors together: with it the proof needs no depth (task induct; waiting is proved to a depth)
    a_lock : assert (m_valid_o ? locked_q == !m_last_o && (!locked_q || lock_q == m_from_o) : locked_q == f_in && (!f_in || lock_q == f_from));
    a_one_hot : assert ((!m_valid_o || $onehot(m_from_o)) && (!locked_q || $onehot(lock_q)) && f_len == {4'd0, locked_q});
    c_contended : cover (&s_valid_i && m_valid_o && m_ready_i && !m_last_o);
  end
