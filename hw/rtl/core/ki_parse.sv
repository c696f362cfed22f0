// The receiving end of the core: one request of spec/wire.md in, one descriptor out, its body in a buffer.
//
//   beat n on the port     slot   4n+1 4n+2 4n+3 4n+4      a slot is a word of the request's cell: 0 and 1 are the cell's own,
//                          word   0    1    2    3         2 and on the body. Beat 0 of the request: {w2, w1, w0, header}
//
//   clock  0 (accepted)            1                          2
//          which bytes count  -->  cut to them; two CRCs -->  descriptor valid
//          header's fields         buffer; errors
//
// Beat 0 names the operation and all lengths. Each word belongs to one section (key, subkey, value) and is cut to it: padding becomes zero,
// whatever was sent. hk is the CRC over the key (the key's root, and the lock), hi over key and subkey (the item), zeros up to a beat.
//
// The body buffer is single: the dispatcher copies it out a beat a clock from the clock after `take_i`. The next request's first beat is accepted
// then at the earliest and written a clock later, so the writer never passes the reader.
module ki_parse (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic         s_tvalid_i,
    output logic         s_tready_o,
    input  logic [255:0] s_tdata_i,
    input  logic [ 31:0] s_tkeep_i,
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
    // the body, four slots a beat
    input  logic [  3:0] body_addr_i,
    output logic [255:0] body_data_o
);
  `include "ki_defs.svh"

  logic acc;
  assign acc = s_tvalid_i && s_tready_o;

  logic        first_q, done_q;
  logic [7:0]  op_q, klen_q, slen_q, err_q;
  logic [3:0]  flags_q;
  logic [15:0] vlen_q, id_q, tag_q;
  logic        drop_q;
  logic [11:0] beat_q;                // of the beat on the port
  logic [7:0]  kw_q, ksw_q;           // words of the key, of key and subkey
  logic [13:0] total_q;               // words of the body

  // ---- the header: lengths in words ------------------------------------------------------------------------------
  logic [7:0] b_op, b_klen, b_slen;
  logic [3:0] b_flags, b_version;
  logic [15:0] b_vlen;
  assign {b_vlen, b_slen, b_klen, b_version, b_flags, b_op} = s_tdata_i[47:0];
  logic [7:0] b_kw, b_sw;
  logic [13:0] b_vw;
  assign b_kw = {3'b0, b_klen[7:3]} + {7'd0, |b_klen[2:0]};
  assign b_sw = {3'b0, b_slen[7:3]} + {7'd0, |b_slen[2:0]};
  assign b_vw = {1'b0, b_vlen[15:3]} + {13'd0, |b_vlen[2:0]};

  logic [7:0] kw, ksw;
  logic [13:0] total;
  logic [2:0] kcut, scut, vcut;       // bytes in the last word of a section, 0: all
  assign kw    = first_q ? b_kw : kw_q;
  assign ksw   = first_q ? b_kw + b_sw : ksw_q;
  assign total = first_q ? {6'd0, b_kw} + {6'd0, b_sw} + b_vw : total_q;
  assign kcut  = first_q ? b_klen[2:0] : klen_q[2:0];
  assign scut  = first_q ? b_slen[2:0] : slen_q[2:0];
  assign vcut  = first_q ? b_vlen[2:0] : vlen_q[2:0];

  // ---- clock 0: which bytes of the beat count --------------------------------------------------------------------
  logic [11:0] beat;
  logic [7:0] w;                      // the body's word in a lane; the header is 255, in no section
  logic [31:0] mask, mask_q;
  logic [3:0] in_key, in_sub, in_value, in_key_q, in_sub_q, in_value_q, no_score_q;
  logic [2:0] tail;
  logic [2:0] lanes;                  // words in the beat, 0: not whole ones from the lowest
  assign beat = first_q ? 12'd0 : beat_q;
  always_comb begin
    for (int l = 0; l < 4; l++) begin
      w = {beat[5:0], 2'b00} + l[7:0] - 8'd1;
      in_key[l] = w < kw;
      in_sub[l] = !in_key[l] && w < ksw;
      in_value[l] = !in_key[l] && !in_sub[l] && w < total[7:0];
      tail = 3'd0;
      if (w + 8'd1 == kw) tail = kcut;
      else if (w + 8'd1 == ksw) tail = scut;
      else if (w + 8'd1 == total[7:0]) tail = vcut;
      for (int b = 0; b < 8; b++) mask[l*8+b] = w < total[7:0] && (tail == 0 || b < {29'd0, tail});
    end
    case (s_tkeep_i)
      32'h0000_00ff: lanes = 3'd1;
      32'h0000_ffff: lanes = 3'd2;
      32'h00ff_ffff: lanes = 3'd3;
      32'hffff_ffff: lanes = 3'd4;
      default: lanes = 3'd0;
    endcase
  end
  // a word that is no score: below -infinity, above +infinity, -0 (spec/wire.md)
  logic [3:0] low_ones, low_zero, no_score;
  always_comb
    for (int l = 0; l < 4; l++) begin
      low_ones[l] = &s_tdata_i[l*64+:52];
      low_zero[l] = ~|s_tdata_i[l*64+:52];
      no_score[l] = (s_tdata_i[l*64+52+:12] == 12'h000 && !low_ones[l]) || (s_tdata_i[l*64+52+:12] == 12'hfff && !low_zero[l]) ||
          (s_tdata_i[l*64+52+:12] == 12'h7ff && low_ones[l]);
    end

  logic a_v_q, a_first_q, a_last_q;
  logic [255:0] data_q;
  logic [4:0] a_beat_q;
  logic a_keep_q;                     // the beat belongs to a body that a cell can hold
  always_ff @(posedge clk_i) begin
    {a_first_q, a_last_q, data_q, mask_q, in_key_q, in_sub_q} <= {first_q, s_tlast_i, s_tdata_i, mask, in_key, in_sub};
    a_beat_q <= beat[4:0];
    a_keep_q <= beat[11:4] == 0;
    {in_value_q, no_score_q} <= {in_value, no_score};
    if (acc) begin
      beat_q <= beat + 12'd1;
      if (first_q) begin
        {op_q, flags_q, klen_q, slen_q, vlen_q} <= {b_op, b_flags, b_klen, b_slen, b_vlen};
        {id_q, tag_q} <= {s_tdata_i[63:48], s_tuser_i};
        {kw_q, ksw_q, total_q} <= {kw, ksw, total};
      end
      drop_q <= (!first_q && drop_q) || (first_q && (b_op[7] || b_version != 4'd1)) || total > 14'd183 || lanes == 0 ||
          (s_tlast_i ? {beat, 2'b00} + {11'd0, lanes} != total + 14'd1 : lanes != 3'd4);
    end
  end

  // ---- clock 1: cut, hash, keep ----------------------------------------------------------------------------------
  logic [255:0] words;
  always_comb for (int b = 0; b < 32; b++) words[b*8+:8] = data_q[b*8+:8] & {8{mask_q[b]}};

  logic [31:0] hk_q, hi_q, hk_on, hi_on, hk_d, hi_d;
  logic [127:0] parts;
  ki_crc32_parts u_parts (.data_i(words), .parts_o(parts));
  ki_crc32_skip u_hk (.crc_i(a_first_q ? 32'hffff_ffff : hk_q), .crc_o(hk_on));
  // another start: a root and an item never have the same hash by construction
  ki_crc32_skip u_hi (.crc_i(a_first_q ? 32'h4954_454d : hi_q), .crc_o(hi_on));
  always_comb begin
    hk_d = hk_on;
    hi_d = hi_on;
    for (int l = 0; l < 4; l++) begin
      hk_d = hk_d ^ (parts[l*32+:32] & {32{in_key_q[l]}});
      hi_d = hi_d ^ (parts[l*32+:32] & {32{in_key_q[l] || in_sub_q[l]}});
    end
  end

  // lane l of beat n is slot 4n+l+1, so each bank has a lane of its own
  logic [63:0] bank0[16], bank1[16], bank2[16], bank3[16];
  logic keep;
  assign keep = a_v_q && a_keep_q;
  always_ff @(posedge clk_i)
    if (keep) begin
      bank1[a_beat_q[3:0]] <= words[0+:64];
      bank2[a_beat_q[3:0]] <= words[64+:64];
      bank3[a_beat_q[3:0]] <= words[128+:64];
      if (a_beat_q[3:0] != 4'd15) bank0[a_beat_q[3:0]+4'd1] <= words[192+:64];
    end
  assign body_data_o = {bank3[body_addr_i], bank2[body_addr_i], bank1[body_addr_i], bank0[body_addr_i]};

  // the error that the header deserves
  logic known, need_k, need_s, any_v, eight_v;
  logic [7:0] b_err, err_d;
  always_comb begin
    known   = 1'b1;
    need_k  = 1'b1;
    need_s  = 1'b0;
    any_v   = 1'b0;
    eight_v = 1'b0;
    case (op_q)
      OpPing, OpStats: need_k = 1'b0;
      OpGet, OpDel, OpLpop, OpRpop, OpSpop, OpZpopmin: ;
      OpSet, OpLpush, OpRpush: any_v = 1'b1;
      OpHget, OpHdel, OpSadd, OpSrem, OpSismember, OpZscore, OpZrem: need_s = 1'b1;
      OpHset: {need_s, any_v} = 2'b11;
      OpZadd: {need_s, eight_v} = 2'b11;
      OpZrange: eight_v = 1'b1;
      default: known = 1'b0;
    endcase
    b_err = StOk;
    if (!known) b_err = StBadOp;
    else if (flags_q != 0 || (klen_q != 0) != need_k || (slen_q != 0) != need_s || (!any_v && !eight_v && vlen_q != 0) ||
             (eight_v && vlen_q != 16'd8))
      b_err = StBadField;
    else if (klen_q > 8'd64 || slen_q > (op_q[6:4] == TyZset ? 8'd16 : 8'd64) || total_q > 14'd58) b_err = StTooLong;
    err_d = a_first_q ? b_err : err_q;
    if (err_d == StOk && op_q == OpZadd && |(in_value_q & no_score_q)) err_d = StBadValue;
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      first_q <= 1'b1;
      done_q  <= 1'b0;
      a_v_q   <= 1'b0;
    end else begin
      a_v_q <= acc;
      if (acc) first_q <= s_tlast_i;
      if (a_v_q && a_last_q) done_q <= 1'b1;
      else if (take_i) done_q <= 1'b0;
    end
  always_ff @(posedge clk_i)
    if (a_v_q) begin
      err_q <= err_d;
      if (a_first_q || |in_key_q) hk_q <= hk_d;
      if (a_first_q || |in_key_q || |in_sub_q) hi_q <= hi_d;
    end

  assign s_tready_o = !done_q && !(a_v_q && a_last_q);
  assign valid_o = done_q;
  assign {op_o, klen_o, slen_o, vlen_o} = {op_q, klen_q[6:0], slen_q[6:0], vlen_q[8:0]};
  assign {id_o, tag_o, hk_o, hi_o, err_o, drop_o} = {id_q, tag_q, hk_q, hi_q, err_q, drop_q};
endmodule
