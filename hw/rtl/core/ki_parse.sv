// The receiving end of the core: one request of spec/wire.md in, one descriptor out, its body in a buffer.
//
// Beat 0 names the operation and all lengths, so the error that a request deserves is known before its key has come. Each body beat is cut
// to its section (padding is made zero, whatever was sent) and enters two CRCs in the same clock: hk over the key (the key's root, and the
// lock), hi over key and subkey (the item). The hashes are there in the clock after the last beat.
//
// The body buffer is single: the dispatcher copies it out a word a clock from the clock after `take_i`, and the first word of the next request
// can come two clocks after it at the earliest, so the writer never passes the reader.
module ki_parse (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         s_tvalid_i,
    output logic         s_tready_o,
    input  logic [ 63:0] s_tdata_i,
    input  logic [  7:0] s_tkeep_i,
    input  logic         s_tlast_i,
    input  logic [ 15:0] s_tuser_i,
    // the descriptor, held until taken
    output logic         valid_o,
    input  logic         take_i,
    output logic [  7:0] op_o,
    output logic [  6:0] klen_o,
    output logic [  6:0] slen_o,
    output logic [  8:0] vlen_o,
    output logic [ 15:0] id_o,
    output logic [ 15:0] tag_o,
    output logic [ 31:0] hk_o,
    output logic [ 31:0] hi_o,
    output logic [  7:0] err_o,     // status of spec/wire.md, 0: none
    output logic         drop_o,    // not a request that deserves an answer
    // the body
    input  logic [  5:0] body_addr_i,
    output logic [ 63:0] body_data_o
);
  `include "ki_defs.svh"

  logic acc;
  assign acc = s_tvalid_i && s_tready_o;

  logic        first_q, done_q;
  logic [7:0]  op_q, klen_q, slen_q, err_q;
  logic [15:0] vlen_q, id_q, tag_q;
  logic        drop_q;
  logic [13:0] pos_q;  // body words so far
  logic [5:0] kw_q;
  logic [6:0] ksw_q;
  logic [13:0] total_q;

  // ---- beat 0 ------------------------------------------------------------------------------------------------
  logic [7:0] b_op, b_klen, b_slen;
  logic [3:0] b_flags, b_version;
  logic [15:0] b_vlen;
  assign {b_vlen, b_slen, b_klen, b_version, b_flags, b_op} = s_tdata_i[47:0];

  logic [5:0] b_kw, b_sw;
  logic [13:0] b_vw, b_total;
  assign b_kw    = {1'b0, b_klen[7:3]} + {5'd0, |b_klen[2:0]};
  assign b_sw    = {1'b0, b_slen[7:3]} + {5'd0, |b_slen[2:0]};
  assign b_vw    = {1'b0, b_vlen[15:3]} + {13'd0, |b_vlen[2:0]};
  assign b_total = {8'd0, b_kw} + {8'd0, b_sw} + b_vw;

  logic b_known, b_need_k, b_need_s, b_any_v, b_eight_v;
  always_comb begin
    b_known   = 1'b1;
    b_need_k  = 1'b1;
    b_need_s  = 1'b0;
    b_any_v   = 1'b0;
    b_eight_v = 1'b0;
    case (b_op)
      OpPing, OpStats: b_need_k = 1'b0;
      OpGet, OpDel, OpLpop, OpRpop, OpSpop, OpZpopmin: ;
      OpSet, OpLpush, OpRpush: b_any_v = 1'b1;
      OpHget, OpHdel, OpSadd, OpSrem, OpSismember, OpZscore, OpZrem: b_need_s = 1'b1;
      OpHset: {b_need_s, b_any_v} = 2'b11;
      OpZadd: {b_need_s, b_eight_v} = 2'b11;
      OpZrange: b_eight_v = 1'b1;
      default: b_known = 1'b0;
    endcase
  end
  logic [7:0] b_err;
  always_comb begin
    b_err = StOk;
    if (!b_known) b_err = StBadOp;
    else if (b_flags != 0 || (b_klen != 0) != b_need_k || (b_slen != 0) != b_need_s ||
             (!b_any_v && !b_eight_v && b_vlen != 0) || (b_eight_v && b_vlen != 16'd8))
      b_err = StBadField;
    else if (b_klen > 8'd64 || b_slen > (b_op[6:4] == TyZset ? 8'd16 : 8'd64) || b_total > 14'd58) b_err = StTooLong;
  end

  // ---- body --------------------------------------------------------------------------------------------------
  logic in_key, in_sub, cut;
  logic [2:0] tail;
  logic [63:0] word;
  assign in_key = pos_q < {8'd0, kw_q};
  assign in_sub = !in_key && pos_q < {7'd0, ksw_q};
  always_comb begin
    if (in_key) begin
      tail = klen_q[2:0];
      cut  = pos_q + 14'd1 == {8'd0, kw_q};
    end else if (in_sub) begin
      tail = slen_q[2:0];
      cut  = pos_q + 14'd1 == {7'd0, ksw_q};
    end else begin
      tail = vlen_q[2:0];
      cut  = pos_q + 14'd1 == total_q;
    end
    for (int b = 0; b < 8; b++) word[b*8+:8] = cut && tail != 0 && b >= {29'd0, tail} ? 8'd0 : s_tdata_i[b*8+:8];
  end

  logic [31:0] hk_q, hi_q, hk_d, hi_d;
  ki_crc32 u_hk (.crc_i(hk_q), .data_i(word), .crc_o(hk_d));
  ki_crc32 u_hi (.crc_i(hi_q), .data_i(word), .crc_o(hi_d));

  logic [63:0] body[64];
  always_ff @(posedge clk_i) if (acc && !first_q && pos_q < 14'd64) body[pos_q[5:0]] <= word;
  assign body_data_o = body[body_addr_i];

  logic bad_score;
  assign bad_score = word < 64'h000f_ffff_ffff_ffff || word > 64'hfff0_0000_0000_0000 || word == 64'h7fff_ffff_ffff_ffff;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      first_q <= 1'b1;
      done_q  <= 1'b0;
    end else begin
      if (acc) begin
        first_q <= s_tlast_i;
        done_q  <= s_tlast_i;
      end else if (take_i) done_q <= 1'b0;
    end

  always_ff @(posedge clk_i)
    if (acc) begin
      if (first_q) begin
        {op_q, klen_q, slen_q, vlen_q} <= {b_op, b_klen, b_slen, b_vlen};
        {id_q, tag_q} <= {s_tdata_i[63:48], s_tuser_i};
        {kw_q, ksw_q, total_q} <= {b_kw, {1'b0, b_kw} + {1'b0, b_sw}, b_total};
        pos_q  <= '0;
        hk_q   <= 32'hffff_ffff;
        hi_q   <= 32'h4954_454d;  // another start: a root and an item never have the same hash by construction
        err_q  <= b_err;
        drop_q <= b_op[7] || b_version != 4'd1 || s_tkeep_i != 8'hff || (s_tlast_i && b_total != 0) || b_total > 14'd183;
      end else begin
        pos_q <= pos_q + 14'd1;
        if (in_key) hk_q <= hk_d;
        if (in_key || in_sub) hi_q <= hi_d;
        if (err_q == StOk && op_q == OpZadd && !in_key && !in_sub && bad_score) err_q <= StBadValue;
        if (s_tkeep_i != 8'hff || (s_tlast_i != (pos_q + 14'd1 == total_q))) drop_q <= 1'b1;
      end
    end

  assign s_tready_o = !done_q;
  assign valid_o = done_q;
  assign {op_o, klen_o, slen_o, vlen_o} = {op_q, klen_q[6:0], slen_q[6:0], vlen_q[8:0]};
  assign {id_o, tag_o, hk_o, hi_o, err_o, drop_o} = {id_q, tag_q, hk_q, hi_q, err_q, drop_q};
endmodule
