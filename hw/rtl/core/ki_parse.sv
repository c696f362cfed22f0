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
  logic        no_request_q, drop_q;
  logic [11:0] beat_q;                // of the beat on the port; 0 if it is a header's
  logic [6:0]  ks_q;                  // words of key and subkey
  logic [7:0]  vw_q;                  // of the value
  logic        huge_q;                // more than that
  logic [5:0]  k_left_q, s_left_q;    // words of the key, of key and subkey, from that beat on

  // ---- clock 0: which bytes of the beat count --------------------------------------------------------------------
  logic [7:0] b_op, b_klen, b_slen;
  logic [3:0] b_flags, b_version;
  logic [15:0] b_vlen;
  assign {b_vlen, b_slen, b_klen, b_version, b_flags, b_op} = s_tdata_i[47:0];
  // Beat 0 has three words of the body: there it matters which numbers of words the lengths reach, and for the beats behind it what is left.
  logic [4:1] k_has, s_has, ks_has;   // at least so many words
  logic [8:0] k_off, s_off;
  logic [5:0] b_kw, k_next, s_next;
  logic [6:0] ks_off;
  function automatic logic [4:1] has(input logic [7:0] n);
    has = {|n[7:5] || (&n[4:3] && |n[2:0]), |n[7:5] || (n[4] && |n[3:0]), |n[7:4] || (n[3] && |n[2:0]), |n};
  endfunction
  assign k_has = has(b_klen);
  assign s_has = has(b_slen);
  assign ks_has = {k_has[4] || s_has[4] || (k_has[3] && s_has[1]) || (k_has[2] && s_has[2]) || (k_has[1] && s_has[3]),
      k_has[3] || s_has[3] || (k_has[2] && s_has[1]) || (k_has[1] && s_has[2]), k_has[2] || s_has[2] || (k_has[1] && s_has[1]),
      k_has[1] || s_has[1]};
  assign b_kw = {1'b0, b_klen[7:3]} + {5'd0, |b_klen[2:0]};
  assign k_off = {1'b0, b_klen} - 9'd17;  // (n + 7 - 24) / 8
  assign s_off = {1'b0, b_slen} - 9'd17;
  assign ks_off = {1'b0, b_kw} + {s_off[8], s_off[8:3]};
  assign k_next = first_q ? k_off[8:3] & {6{!k_off[8]}} : k_left_q > 6'd4 ? k_left_q - 6'd4 : 6'd0;
  assign s_next = first_q ? ks_off[5:0] & {6{!ks_off[6]}} : s_left_q > 6'd4 ? s_left_q - 6'd4 : 6'd0;

  logic [31:0] mask, mask_q;
  logic [3:0] in_key, in_sub, in_value, k_end, s_end, v_end, there, in_key_q, in_sub_q, in_value_q, no_score_q;
  logic [2:0] kcut, scut, vcut, tail;  // bytes in the last word of a section, 0: all
  logic [2:0] lanes;                   // words in the beat, 0: not whole ones from the lowest
  assign kcut = first_q ? b_klen[2:0] : klen_q[2:0];
  assign scut = first_q ? b_slen[2:0] : slen_q[2:0];
  assign vcut = first_q ? b_vlen[2:0] : vlen_q[2:0];
  always_comb begin
    case (s_tkeep_i)
      32'h0000_00ff: lanes = 3'd1;
      32'h0000_ffff: lanes = 3'd2;
      32'h00ff_ffff: lanes = 3'd3;
      32'hffff_ffff: lanes = 3'd4;
      default: lanes = 3'd0;
    endcase
    for (int l = 0; l < 4; l++) begin
      there[l] = s_tkeep_i[l*8] && !(first_q && l == 0);
      if (first_q) begin
        in_key[l] = l != 0 && k_has[l==0?1:l];
        k_end[l]  = !k_has[l+1];
        in_sub[l] = l != 0 && !in_key[l] && ks_has[l==0?1:l];
        s_end[l]  = !ks_has[l+1];
      end else begin
        in_key[l] = k_left_q > l[5:0];
        k_end[l]  = k_left_q == l[5:0] + 6'd1;
        in_sub[l] = !in_key[l] && s_left_q > l[5:0];
        s_end[l]  = s_left_q == l[5:0] + 6'd1;
      end
      in_value[l] = there[l] && !in_key[l] && !in_sub[l];
      v_end[l] = s_tlast_i && lanes == l[2:0] + 3'd1;  // a request whose value ends elsewhere is dropped
      tail = in_key[l] ? kcut & {3{k_end[l]}} : in_sub[l] ? scut & {3{s_end[l]}} : vcut & {3{v_end[l]}};
      for (int b = 0; b < 8; b++) mask[l*8+b] = there[l] && (tail == 0 || b < {29'd0, tail});
    end
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
  logic [11:0] a_beat_q;
  logic [2:0] lanes_q;
  always_ff @(posedge clk_i) begin
    {a_first_q, a_last_q, data_q, mask_q} <= {first_q, s_tlast_i, s_tdata_i, mask};
    {in_key_q, in_sub_q, in_value_q, no_score_q} <= {in_key, in_sub, in_value, no_score};
    {a_beat_q, lanes_q} <= {beat_q, lanes};
    if (acc) begin
      {k_left_q, s_left_q} <= {k_next, s_next};
      if (first_q) begin
        {op_q, flags_q, klen_q, slen_q, vlen_q} <= {b_op, b_flags, b_klen, b_slen, b_vlen};
        {id_q, tag_q} <= {s_tdata_i[63:48], s_tuser_i};
        no_request_q <= b_op[7] || b_version != 4'd1;
        ks_q <= {1'b0, b_kw} + {2'b0, b_slen[7:3]} + {6'd0, |b_slen[2:0]};
        vw_q <= b_vlen[10:3] + {7'd0, |b_vlen[2:0]};
        huge_q <= |b_vlen[15:11] || &b_vlen[10:3];
      end
    end
  end

  // the body's length, as the header has it
  logic [8:0] total;
  assign total = {2'd0, ks_q} + {1'b0, vw_q};
  logic [1:0] last_lane;
  logic wrong_length;
  assign last_lane = lanes_q[1:0] - 2'd1;
  assign wrong_length = huge_q || total > 9'd183 || lanes_q == 0 || (a_last_q ? {a_beat_q, last_lane} != {5'd0, total} : lanes_q != 3'd4);

  // ---- clock 1: cut, hash, keep ----------------------------------------------------------------------------------
  logic [255:0] words;
  always_comb for (int b = 0; b < 32; b++) words[b*8+:8] = data_q[b*8+:8] & {8{mask_q[b]}};

  logic [31:0] hk_q, hi_q, hk_on, hi_on, hk_d, hi_d;
  logic [127:0] parts;
  ki_crc32_parts u_parts (.data_i(words), .parts_o(parts));
  ki_crc32_skip u_hk (.crc_i(hk_q), .crc_o(hk_on));
  ki_crc32_skip u_hi (.crc_i(hi_q), .crc_o(hi_on));
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
  assign keep = a_v_q && a_beat_q[11:4] == 0;
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
    else if (klen_q > 8'd64 || slen_q > (op_q[6:4] == TyZset ? 8'd16 : 8'd64) || total > 9'd58) b_err = StTooLong;
    err_d = a_first_q ? b_err : err_q;
    if (err_d == StOk && op_q == OpZadd && |(in_value_q & no_score_q)) err_d = StBadValue;
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      first_q <= 1'b1;
      beat_q  <= '0;
      done_q  <= 1'b0;
      a_v_q   <= 1'b0;
    end else begin
      a_v_q <= acc;
      if (acc) begin
        first_q <= s_tlast_i;
        beat_q  <= s_tlast_i ? 12'd0 : beat_q + 12'd1;
      end
      if (a_v_q && a_last_q) done_q <= 1'b1;
      else if (take_i) done_q <= 1'b0;
    end
  always_ff @(posedge clk_i) begin
    if (a_v_q) begin
      err_q  <= err_d;
      drop_q <= (!a_first_q && drop_q) || no_request_q || wrong_length;
    end
    if (acc && first_q) begin
      // two starts: a root and an item never have the same hash by construction
      hk_q <= 32'hffff_ffff;
      hi_q <= 32'h4954_454d;
    end else if (a_v_q) begin
      if (|in_key_q) hk_q <= hk_d;
      if (|in_key_q || |in_sub_q) hi_q <= hi_d;
    end
  end

  assign s_tready_o = !done_q && !(a_v_q && a_last_q);
  assign valid_o = done_q;
  assign {op_o, klen_o, slen_o, vlen_o} = {op_q, klen_q[6:0], slen_q[6:0], vlen_q[8:0]};
  assign {id_o, tag_o, hk_o, hi_o, err_o, drop_o} = {id_q, tag_q, hk_q, hi_q, err_q, drop_q};
endmodule
