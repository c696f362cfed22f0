// The index pipeline: one operation a clock on a bucketed hash table in on-chip memory.
//
//   clock   0        1         2          3             4            5
//         request -> S1 ----> S2 -------> S3 ---------> S4 --------> S5
//                    read      capture     compare       choose       write, answer
//                    bucket    the ways    fingerprints  one way      the small entry
//
// A bucket is WAYS entries of {valid, item, fingerprint, type, pointer}, half of them at one place and half at another: the lower ways at
// hash[low bits], the upper ways at that XOR the hash's top bits. Two keys that crowd one half seldom crowd both, so the table fills
// further before an insertion finds no way (measured: docs/results). Bucket and fingerprint together hold every hash bit they come
// from, and a fingerprint match is a hint: who looks up compares the whole key with the cell, and asks again with
// the ways already seen in `skip` if it was somebody else's.
//
//   LOOKUP  first way (not in skip) with the fingerprint
//   INSERT  first free way takes the new entry; no free way: hit_o = 0 and nothing changes
//   UPDATE  the way with the fingerprint and pointer `old` takes the new entry; none: hit_o = 0
//   DELETE  the way with the fingerprint and pointer `old` becomes free; none: hit_o = 0
//
// Hazards. What an operation wrote in S5 is seen by reads that enter S1 five clocks after its own. Followers at distance
// 2, 3 and 4 are corrected in S3, at distance 1 in S4. Only one-hot way flags and the one changed entry are forwarded:
// whether the predecessor's new entry would match (same fingerprint, same pointer) depends on the two *requests* alone,
// so it is compared in S1, three stages before it is needed. No wide bucket is ever compared twice.
//
// Source: the forwarding of a read-modify-write pipeline; a bucketed table as of Istvan et al. (FPL 2013) without chains, its ways skewed (Seznec,
// ISCA 1993).
module ki_index #(
    parameter int BUCKET_BITS = 10,
    parameter int WAYS        = 4,
    parameter int FP_BITS     = 16,
    parameter int PTR_BITS    = 26,
    parameter int ID_BITS     = 4
) (
    input  logic                clk_i,
    input  logic                rst_ni,
    // request; accepted whenever ready (low only while the table is cleared after reset)
    input  logic                req_valid_i,
    output logic                req_ready_o,
    input  logic [         1:0] req_op_i,
    input  logic [ ID_BITS-1:0] req_id_i,
    input  logic [        31:0] req_hash_i,
    input  logic                req_item_i,
    input  logic [         2:0] req_type_i,
    input  logic [PTR_BITS-1:0] req_old_i,
    input  logic [PTR_BITS-1:0] req_new_i,
    input  logic [    WAYS-1:0] req_skip_i,
    // answer, five clocks later, in order, never held
    output logic                rsp_valid_o,
    output logic [         1:0] rsp_op_o,
    output logic [ ID_BITS-1:0] rsp_id_o,
    output logic                rsp_hit_o,
    output logic [    WAYS-1:0] rsp_way_o,
    output logic [         2:0] rsp_type_o,
    output logic [PTR_BITS-1:0] rsp_ptr_o
);
  localparam logic [1:0] OpLookup = 2'd0, OpInsert = 2'd1, OpDelete = 2'd3;
  localparam int E = 1 + 1 + FP_BITS + 3 + PTR_BITS;  // valid, item, fingerprint, type, pointer
  localparam int FpLsb = 3 + PTR_BITS;

  initial begin
    if (BUCKET_BITS + FP_BITS > 32) $fatal(1, "bucket and fingerprint bits must be disjoint");
    if (WAYS < 2 || WAYS % 2 != 0) $fatal(1, "an even number of ways");
  end

  // ---- stage registers -------------------------------------------------------------------------------------------
  logic v1_q, v2_q, v3_q, v4_q, v5_q;
  logic [1:0] op1_q, op2_q, op3_q, op4_q, op5_q;
  logic [ID_BITS-1:0] id1_q, id2_q, id3_q, id4_q, id5_q;
  logic [2*BUCKET_BITS-1:0] b1_q, b2_q, b3_q, b4_q, b5_q;  // {upper, lower ways}
  logic [FP_BITS:0] fp1_q, fp2_q, fp3_q, fp4_q, fp5_q;  // {item, fingerprint}
  logic [2:0] ty1_q, ty2_q, ty3_q, ty4_q, ty5_q;
  logic [PTR_BITS-1:0] old1_q, old2_q, old3_q;
  logic [PTR_BITS-1:0] new1_q, new2_q, new3_q, new4_q, new5_q;
  logic [WAYS-1:0] skip1_q, skip2_q, skip3_q, skip4_q;
  // what a predecessor at distance 1..4 means for this operation: same bucket; its new entry would match this one
  logic [4:1] hit2_q, hit3_q;
  logic [2*4-1:0] same2_q, same3_q;  // two bits a distance: upper, lower ways
  logic [1:0] same4_q;
  logic hit4_q;
  logic is_old1, is_old3;

  logic [WAYS-1:0] way5_q, way6_q, way7_q;   // the way written (one hot), zero for no write
  logic [WAYS-1:0] sel5_q;
  logic sel_hit5_q;
  logic [E-1:0] ent5, ent6_q, ent7_q;

  // ---- clearing after reset --------------------------------------------------------------------------------------
  logic [BUCKET_BITS-1:0] clr_q;
  logic                   clr_done_q;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      clr_q      <= '0;
      clr_done_q <= 1'b0;
    end else if (!clr_done_q) begin
      clr_q      <= clr_q + 1'b1;
      clr_done_q <= &clr_q;
    end
  assign req_ready_o = clr_done_q;

  // ---- S1: read the bucket; compare this request with those ahead of it ------------------------------------------
  assign is_old1 = op1_q != OpLookup;  // DELETE and UPDATE also ask for the pointer (INSERT matches nothing)

  function automatic logic [1:0] meet(input logic [2*BUCKET_BITS-1:0] x, input logic [2*BUCKET_BITS-1:0] y);
    meet = {x[BUCKET_BITS+:BUCKET_BITS] == y[BUCKET_BITS+:BUCKET_BITS], x[BUCKET_BITS-1:0] == y[BUCKET_BITS-1:0]};
  endfunction

  logic [4:1] hit1;
  logic [2*4-1:0] same1;
  always_comb begin
    same1[0+:2] = meet(b2_q, b1_q) & {2{v2_q}};
    same1[2+:2] = meet(b3_q, b1_q) & {2{v3_q}};
    same1[4+:2] = meet(b4_q, b1_q) & {2{v4_q}};
    same1[6+:2] = meet(b5_q, b1_q) & {2{v5_q}};
    hit1[1]  = fp2_q == fp1_q && (!is_old1 || new2_q == old1_q);
    hit1[2]  = fp3_q == fp1_q && (!is_old1 || new3_q == old1_q);
    hit1[3]  = fp4_q == fp1_q && (!is_old1 || new4_q == old1_q);
    hit1[4]  = fp5_q == fp1_q && (!is_old1 || new5_q == old1_q);
  end

  // ---- the table: one memory a way, read in S1, written in S5 ----------------------------------------------------
  logic [WAYS*E-1:0] rd3_q;
  logic [  WAYS-1:0] we;
  assign we = clr_done_q ? way5_q : {WAYS{1'b1}};
  for (genvar w = 0; w < WAYS; w++) begin : g_way
    localparam int At = w < WAYS / 2 ? 0 : BUCKET_BITS;
    (* ram_style = "block", no_rw_check *)
    logic [E-1:0] mem[2**BUCKET_BITS];
    logic [E-1:0] rd2_q;
    always_ff @(posedge clk_i) begin
      if (we[w]) mem[clr_done_q?b5_q[At+:BUCKET_BITS] : clr_q] <= clr_done_q ? ent5 : {E{1'b0}};
      rd2_q <= mem[b1_q[At+:BUCKET_BITS]];
    end
    always_ff @(posedge clk_i) rd3_q[w*E+:E] <= rd2_q;
  end

  // ---- S3: fingerprints, corrected for predecessors two, three and four ahead ------------------------------------
  logic [WAYS-1:0] match3, free3, match4_q, free4_q;
  logic [WAYS*E-1:0] ent3, ent4_q;
  assign is_old3 = op3_q != OpLookup;
  always_comb begin
    for (int w = 0; w < WAYS; w++) begin
      ent3[w*E+:E] = rd3_q[w*E+:E];
      free3[w] = !rd3_q[w*E+E-1];
      match3[w] = rd3_q[w*E+E-1] && rd3_q[w*E+FpLsb+:FP_BITS+1] == fp3_q &&
          (!is_old3 || rd3_q[w*E+:PTR_BITS] == old3_q);
`ifndef MUTANT_NO_FORWARD_4
      if (same3_q[w<WAYS/2?6:7] && way7_q[w]) begin
        ent3[w*E+:E] = ent7_q;
        free3[w] = !ent7_q[E-1];
        match3[w] = ent7_q[E-1] && hit3_q[4];
      end
`endif
`ifndef MUTANT_NO_FORWARD_3
      if (same3_q[w<WAYS/2?4:5] && way6_q[w]) begin
        ent3[w*E+:E] = ent6_q;
        free3[w] = !ent6_q[E-1];
        match3[w] = ent6_q[E-1] && hit3_q[3];
      end
`endif
`ifndef MUTANT_NO_FORWARD_2
      if (same3_q[w<WAYS/2?2:3] && way5_q[w]) begin
        ent3[w*E+:E] = ent5;
        free3[w] = !ent5[E-1];
        match3[w] = ent5[E-1] && hit3_q[2];
      end
`endif
      if (skip3_q[w] || op3_q == OpInsert) match3[w] = 1'b0;
    end
  end

  // ---- S4: corrected for the predecessor one ahead; choose one way -----------------------------------------------
  logic [WAYS-1:0] match4, free4, want4, sel4;
  logic [WAYS*E-1:0] ent4;
  always_comb begin
    match4 = match4_q;
    free4  = free4_q;
    ent4   = ent4_q;
`ifndef MUTANT_NO_FORWARD_1
    for (int w = 0; w < WAYS; w++) begin
      if (same4_q[w<WAYS/2?0:1] && way5_q[w]) begin
        ent4[w*E+:E] = ent5;
        free4[w] = !ent5[E-1];
        match4[w] = ent5[E-1] && hit4_q && !skip4_q[w] && op4_q != OpInsert;
      end
    end
`endif
    want4 = op4_q == OpInsert ? free4 : match4;
    sel4  = want4 & (~want4 + 1'b1);  // the first
  end

  // ---- S5: write and answer --------------------------------------------------------------------------------------
  logic [WAYS*E-1:0] ent5_q;
  assign ent5 = {op5_q != OpDelete, fp5_q, ty5_q, new5_q};

  logic [E-1:0] found5;
  always_comb begin
    found5 = '0;
    for (int w = 0; w < WAYS; w++) found5 = found5 | (ent5_q[w*E+:E] & {E{sel5_q[w]}});
  end
  assign rsp_valid_o = v5_q;
  assign rsp_op_o    = op5_q;
  assign rsp_id_o    = id5_q;
  assign rsp_hit_o   = sel_hit5_q;
  assign rsp_way_o   = sel5_q;
  assign rsp_type_o  = found5[PTR_BITS+:3];
  assign rsp_ptr_o   = found5[PTR_BITS-1:0];

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      v1_q <= 1'b0;
      v2_q <= 1'b0;
      v3_q <= 1'b0;
      v4_q <= 1'b0;
      v5_q <= 1'b0;
      way5_q <= '0;
      way6_q <= '0;
      way7_q <= '0;
    end else begin
      v1_q <= req_valid_i && req_ready_o;
      v2_q <= v1_q;
      v3_q <= v2_q;
      v4_q <= v3_q;
      v5_q <= v4_q;
      way5_q <= v4_q && op4_q != OpLookup ? sel4 : '0;
      way6_q <= way5_q;
      way7_q <= way6_q;
    end

  always_ff @(posedge clk_i) begin
    {op1_q, id1_q, b1_q}  <= {req_op_i, req_id_i, req_hash_i[BUCKET_BITS-1:0] ^ req_hash_i[31-:BUCKET_BITS], req_hash_i[BUCKET_BITS-1:0]};
    fp1_q                 <= {req_item_i, req_hash_i[31-:FP_BITS]};
    {ty1_q, old1_q, new1_q, skip1_q} <= {req_type_i, req_old_i, req_new_i, req_skip_i};
    {op2_q, id2_q, b2_q, fp2_q, ty2_q} <= {op1_q, id1_q, b1_q, fp1_q, ty1_q};
    {old2_q, new2_q, skip2_q} <= {old1_q, new1_q, skip1_q};
    {op3_q, id3_q, b3_q, fp3_q, ty3_q} <= {op2_q, id2_q, b2_q, fp2_q, ty2_q};
    {old3_q, new3_q, skip3_q} <= {old2_q, new2_q, skip2_q};
    {op4_q, id4_q, b4_q, fp4_q, ty4_q} <= {op3_q, id3_q, b3_q, fp3_q, ty3_q};
    {new4_q, skip4_q} <= {new3_q, skip3_q};
    {op5_q, id5_q, b5_q, fp5_q, ty5_q, new5_q} <= {op4_q, id4_q, b4_q, fp4_q, ty4_q, new4_q};
    {same2_q, hit2_q} <= {same1, hit1};
    {same3_q, hit3_q} <= {same2_q, hit2_q};
    {same4_q, hit4_q} <= {same3_q[1:0], hit3_q[1]};
    {match4_q, free4_q, ent4_q} <= {match3, free3, ent3};
    {sel5_q, ent5_q} <= {sel4, ent4};
    sel_hit5_q <= |sel4;
    ent6_q <= ent5;
    ent7_q <= ent6_q;
  end

`ifdef FORMAL
  `include "ki_index_props.svh"
`endif
endmodule
