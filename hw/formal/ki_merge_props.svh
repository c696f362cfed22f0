// One input, any input, is followed: each of its beats leaves in the clock in which it is taken, with its data.
// Other inputs are free. Inputs keep valid and data until taken (the stream's rule), ask when they have a beat, and may ask in vain; the
// output is stalled at will.
(* anyconst *) logic [$clog2(N)-1:0] f_who;
logic f_past = 1'b0;
initial assume (!rst_ni);
always @(posedge clk_i) f_past <= 1'b1;
always @(posedge clk_i) if (f_past) assume (rst_ni);
always @(*) assume ({1'b0, f_who} < N);
always @(*) assume ((s_valid_i & ~s_req_i) == '0);

always @(posedge clk_i)
  if (f_past && $past(rst_ni) && rst_ni) begin
    for (int i = 0; i < N; i++)
      if ($past(s_valid_i[i] && !s_ready_o[i])) begin
        assume (s_valid_i[i]);
        assume ($stable(s_data_i[i*W+:W]) && $stable(s_last_i[i]));
      end
    // and so does the output
    if ($past(m_valid_o && !m_ready_i)) a_held : assert (m_valid_o && $stable({m_from_o, m_data_o, m_last_o}));
  end

logic f_taken, f_left;
assign f_taken = s_valid_i[f_who] && s_ready_o[f_who];
assign f_left  = m_valid_o && m_ready_i && m_from_o[f_who];
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
    a_not_dropped : assert (!f_taken || f_left);
    a_not_duplicated : assert (!f_left || f_taken);
    a_data : assert (!f_left || (m_data_o == s_data_i[f_who*W+:W] && m_last_o == s_last_i[f_who]));
    a_not_mixed : assert (!(m_valid_o && f_in) || m_from_o == f_from);
`ifndef INDUCT
    a_not_starved : assert (f_wait <= 2 * N);
`endif
    // what ties the port's holder and the monitors together: with it the proof needs no depth (task induct; waiting is proved to a depth)
    a_lock : assert (inside_q == f_in && (!f_in || own_q == f_from));
    a_one_hot : assert ($onehot0(own_q) && (!inside_q || $onehot(own_q)) && f_len == {4'd0, inside_q});
    c_contended : cover (&s_valid_i && m_valid_o && m_ready_i && !m_last_o);
  end
