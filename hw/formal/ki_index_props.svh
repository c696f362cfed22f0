// One bucket, any bucket, kept as plain registers and changed at the moment an operation answers. Every answer to an
// operation on that bucket must be what this sequential table says: that is all that forwarding has to achieve.
(* anyconst *) logic [BUCKET_BITS-1:0] f_bucket;
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
end
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_tab <= '0;
  else if (v5_q && b5_q == f_bucket && op5_q != OpLookup)
    for (int w = 0; w < WAYS; w++) if (f_sel[w]) f_tab[w*E+:E] <= ent5;

always @(posedge clk_i)
  if (rst_ni && v5_q && b5_q == f_bucket) begin
    a_way : assert (rsp_way_o == f_sel);
    a_hit : assert (rsp_hit_o == |f_sel);
    for (int w = 0; w < WAYS; w++)
      if (f_sel[w] && op5_q != OpInsert) assert (  // the entry itself
          {rsp_type_o, rsp_ptr_o} == f_tab[w*E+:PTR_BITS+3]);
    c_back_to_back : cover (op5_q == OpLookup && rsp_hit_o && v4_q && b4_q == b5_q);
  end
