// The entries of two places, any two, one for the lower ways and one for the upper, kept as plain registers and changed at the moment an
// operation answers. The answer to every operation on those two places must be what this sequential table says: that is all that
// forwarding has to achieve. An operation that meets only one of the two is held to this half (it may choose only the half's first
// match); what it chooses is then believed, and proved for the other pair of places that it does meet.
(* anyconst *) logic [BUCKET_BITS-1:0] f_low, f_up;
logic [WAYS*E-1:0] f_tab;
logic [WAYS-1:0] f_want, f_sel;
logic [PTR_BITS-1:0] f_old4, f_old5;
logic [WAYS-1:0] f_skip5;
logic f_past = 1'b0;
always_ff @(posedge clk_i) begin
  f_past  <= 1'b1;
  f_old4  <= old3_q;
  f_old5  <= f_old4;
  f_skip5 <= skip4_q;
end
initial assume (!rst_ni);
always @(posedge clk_i) if (f_past) assume (rst_ni);

always_comb begin
  for (int w = 0; w < WAYS; w++) begin
    f_want[w] = f_tab[w*E+E-1] && f_tab[w*E+FpLsb+:FP_BITS+1] == fp5_q && !f_skip5[w] &&
        (op5_q == OpLookup || f_tab[w*E+:PTR_BITS] == f_old5);
    if (op5_q == OpInsert) f_want[w] = !f_tab[w*E+E-1];
  end
  f_sel = f_want & (~f_want + 1'b1);
  f_first = {f_upper & (~f_upper + 1'b1), f_lower & (~f_lower + 1'b1)};
end
logic [WAYS/2-1:0] f_lower, f_upper;
logic [WAYS-1:0] f_first, f_mine;
assign {f_upper, f_lower} = f_want;
assign f_mine = {{WAYS/2{v5_q && b5_q[BUCKET_BITS+:BUCKET_BITS] == f_up}}, {WAYS/2{v5_q && b5_q[BUCKET_BITS-1:0] == f_low}}};
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_tab <= '0;
  else if (op5_q != OpLookup)
    for (int w = 0; w < WAYS; w++) if (f_mine[w] && rsp_way_o[w]) f_tab[w*E+:E] <= ent5;

always @(posedge clk_i)
  if (rst_ni) a_half : assert ((rsp_way_o & f_mine & ~f_first) == '0);
always @(posedge clk_i)
  if (rst_ni && &f_mine) begin
    a_way : assert (rsp_way_o == f_sel);
    a_hit : assert (rsp_hit_o == |f_sel);
    for (int w = 0; w < WAYS; w++)
      if (f_sel[w] && op5_q != OpInsert) assert (  // the entry itself
          {rsp_type_o, rsp_ptr_o} == f_tab[w*E+:PTR_BITS+3]);
    c_back_to_back : cover (op5_q == OpLookup && rsp_hit_o && v4_q && b4_q == b5_q);
  end
