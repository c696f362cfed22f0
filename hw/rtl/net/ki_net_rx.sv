// Receive: what comes off the wire, checked in every respect before anybody behind may see it.
//
//   MAC --> s0: input --> s1: fields, lanes, payload on trust --> s2: sums --> s3: fold --> s4: verdict
//           register         |                                                                  |
//                            +--> request buffer (UDP)  ------ commit or roll back <------------+--> descriptor
//                            +--> echo buffer (ICMP)    ------ commit or roll back <------------+--> descriptor
//                                                                        ARP request <----------+--> descriptor
//
//   beat  0        1            2              3            4             5            6...
//   byte  0 dst    8 src..type  16 len..proto  24 sum,from  32 to,ports   40 sum|data  48 data
//
// The payload of UDP (and what follows the first 8 bytes of an ICMP echo) begins at byte 42, lane 2 of beat 5. Every beat
// from the sixth on completes one of 64 bits: its two lowest lanes above the six highest of the beat before.
// The input is always ready, as a MAC demands: what finds no room is dropped whole, and counted.
// A frame is judged four clocks after its last beat. The next frame's first payload beat is seven clocks behind that
// last beat at least, so it is never in one clock with the verdict on the frame before.
//
// Checks, in the order in which they claim a frame for their counter: see `count` at the end.
module ki_net_rx #(
    parameter int REQUEST_BEATS = 2048,  // size of the request buffer, in words of 8 bytes
    parameter int REQUESTS      = 64,    // descriptors of requests
    parameter int ECHO_BEATS    = 512    // size of the echo buffer
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    // who we are; the first byte on the wire is the highest
    input  logic [ 47:0] mac_i,
    input  logic [ 31:0] ip_i,
    input  logic [ 15:0] port_i,
    // frames from the MAC, without frame check sequence; user: the MAC found it broken (with last)
    input  logic         rx_valid_i,
    input  logic [ 63:0] rx_data_i,
    input  logic [  7:0] rx_keep_i,
    input  logic         rx_last_i,
    input  logic         rx_user_i,
    // requests: descriptor {words 8, mac 48, ip 32, port 16}, then as many beats of four words as they need
    output logic         req_valid_o,
    input  logic         req_ready_i,
    output logic [103:0] req_desc_o,
    output logic         req_beat_valid_o,
    input  logic         req_beat_ready_i,
    output logic [255:0] req_beat_o,
    // echoes: {length 11, checksum 16, id and sequence number 32, mac 48, ip 32}, then ceil(length / 8) beats
    output logic         echo_valid_o,
    input  logic         echo_ready_i,
    output logic [138:0] echo_desc_o,
    output logic         echo_beat_valid_o,
    input  logic         echo_beat_ready_i,
    output logic [ 63:0] echo_beat_o,
    // ARP requests for us: {mac 48, ip 32}
    output logic         arp_valid_o,
    input  logic         arp_ready_i,
    output logic [ 79:0] arp_desc_o,
    // one of these, for one clock, for each frame: request, echo, ARP; and why it was dropped (see `count`)
    output logic [  2:0] taken_o,
    output logic [  6:0] count_o
);
  localparam int MaxBeats = 190;  // 1514 bytes

  function automatic logic [15:0] be16(input logic [15:0] lanes);
    be16 = {lanes[7:0], lanes[15:8]};
  endfunction
  function automatic logic [31:0] be32(input logic [31:0] lanes);
    be32 = {lanes[7:0], lanes[15:8], lanes[23:16], lanes[31:24]};
  endfunction
  // Number of valid lanes of a last beat; 0 if they are not the lowest ones.
  function automatic logic [3:0] lanes_of(input logic [7:0] keep);
    case (keep)
      8'h01:   lanes_of = 4'd1;
      8'h03:   lanes_of = 4'd2;
      8'h07:   lanes_of = 4'd3;
      8'h0f:   lanes_of = 4'd4;
      8'h1f:   lanes_of = 4'd5;
      8'h3f:   lanes_of = 4'd6;
      8'h7f:   lanes_of = 4'd7;
      8'hff:   lanes_of = 4'd8;
      default: lanes_of = 4'd0;
    endcase
  endfunction
  // The sum of four 16-bit words of a beat.
  function automatic logic [17:0] sum4(input logic [63:0] d);
    sum4 = 18'(be16(d[15:0])) + 18'(be16(d[31:16])) + 18'(be16(d[47:32])) + 18'(be16(d[63:48]));
  endfunction
  // The lanes of a beat that hold something if n bytes are left, and the beat with zeros in the others.
  function automatic logic [7:0] lanes_with(input logic [15:0] n);
    lanes_with = n >= 16'd8 ? 8'hff : 8'((9'd1 << n[2:0]) - 9'd1);
  endfunction
  function automatic logic [63:0] only(input logic [63:0] d, input logic [7:0] lanes);
    for (int i = 0; i < 8; i++) only[8*i+:8] = d[8*i+:8] & {8{lanes[i]}};
  endfunction
  function automatic logic [15:0] fold(input logic [25:0] s);
    logic [16:0] once;
    begin
      once = {1'b0, s[15:0]} + {7'b0, s[25:16]};
      fold = once[15:0] + {15'b0, once[16]};
    end
  endfunction

  // ---- s0: the input register ------------------------------------------------------------------------------------
  logic        v_q, last_q, bad_q;
  logic [63:0] d_q;
  logic [ 7:0] keep_q;
  logic [ 7:0] idx_q;  // beat of the frame, stays at 255

  always_ff @(posedge clk_i) begin
    d_q    <= rx_data_i;
    keep_q <= rx_keep_i;
    last_q <= rx_last_i;
    bad_q  <= rx_user_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      v_q   <= 1'b0;
      idx_q <= '0;
    end else begin
      v_q <= rx_valid_i;
      if (v_q) idx_q <= last_q ? '0 : &idx_q ? idx_q : idx_q + 1'b1;
    end

  // ---- s1: fields -------------------------------------------------------------------------------------------------
  logic [47:0] dst_q, src_q;
  logic [15:0] type_q, total_q, frag_q, sport_q, dport_q, udp_len_q, tail_q;
  logic [7:0] ver_q, proto_q;
  logic [31:0] sip_q, dip_q;
  logic [47:0] sha_q;
  logic [31:0] spa_q;
  logic [63:0] arp_head_q;  // hardware and protocol type, lengths, operation
  logic [63:0] prev_q;
  logic keep_bad_q;

  always_ff @(posedge clk_i)
    if (v_q) begin
      prev_q <= d_q;
      keep_bad_q <= (idx_q != 0 && keep_bad_q) || (!last_q && keep_q != 8'hff);
      case (idx_q)
        8'd0: begin
          dst_q <= {be16(d_q[15:0]), be32(d_q[47:16])};
          src_q[47:32] <= be16(d_q[63:48]);
        end
        8'd1: begin
          src_q[31:0] <= be32(d_q[31:0]);
          type_q <= be16(d_q[47:32]);
          ver_q <= d_q[55:48];
          arp_head_q[63:48] <= be16(d_q[63:48]);
        end
        8'd2: begin
          total_q <= be16(d_q[15:0]);
          frag_q <= be16(d_q[47:32]);
          proto_q <= d_q[63:56];
          arp_head_q[47:0] <= {be32(d_q[31:0]), be16(d_q[47:32])};
          sha_q[47:32] <= be16(d_q[63:48]);
        end
        8'd3: begin
          sip_q <= be32(d_q[47:16]);
          dip_q[31:16] <= be16(d_q[63:48]);
          sha_q[31:0] <= be32(d_q[31:0]);
          spa_q <= be32(d_q[63:32]);
        end
        8'd4: begin
          dip_q[15:0] <= be16(d_q[15:0]);
          sport_q <= be16(d_q[31:16]);  // or an ICMP type and code
          dport_q <= be16(d_q[47:32]);  // or an ICMP checksum
          udp_len_q <= be16(d_q[63:48]);  // or an echo's id, or half of the address that ARP asks for
        end
        8'd5: begin
          tail_q <= be16(d_q[15:0]);
        end
        default: ;
      endcase
    end

  // ---- s1: payload on trust -----------------------------------------------------------------------------------------
  // left: payload bytes (of UDP, or behind the 8 bytes of an echo's header) from the one that the coming output beat begins with.
  logic [15:0] left_q, left_d;
  logic [ 7:0] out_lanes_q;  // of that beat
  logic        is_udp, is_icmp, body, flush_q, wr, wr_first_q;
  logic [63:0] out;
  assign is_udp  = type_q == 16'h0800 && proto_q == 8'd17;
  assign is_icmp = type_q == 16'h0800 && proto_q == 8'd1;
  assign body    = v_q && idx_q >= 8'd6 && idx_q != 8'd255;
  assign wr      = (body || flush_q) && out_lanes_q[0];
  assign out     = only({flush_q ? 16'h0000 : d_q[15:0], prev_q[63:16]}, out_lanes_q);
  always_comb begin
    left_d = left_q;
    if (v_q && idx_q == 8'd5) left_d = total_q > 16'd28 ? total_q - 16'd28 : '0;
    else if (wr) left_d = left_q > 16'd8 ? left_q - 16'd8 : '0;
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      flush_q     <= 1'b0;
      left_q      <= '0;
      out_lanes_q <= '0;
      wr_first_q  <= 1'b0;
    end else begin
      // What the last beat holds above its lowest lanes belongs to one more output beat; the next frame is far behind.
      flush_q <= v_q && last_q && idx_q >= 8'd5 && idx_q != 8'd255;
      left_q      <= left_d;
      out_lanes_q <= lanes_with(left_d);
      if (v_q && idx_q == 8'd5) wr_first_q <= 1'b1;
      else if (wr) wr_first_q <= 1'b0;
    end

  // The datagram's own header, judged on its first beat: spec/wire.md, "No answer".
  logic [15:0] want_q;
  logic        head_ok_q;
  always_ff @(posedge clk_i)
    if (v_q && idx_q == 8'd5) head_ok_q <= 1'b0;
    else if (wr && wr_first_q) begin
      head_ok_q <= !out[7] && out[15:12] == 4'd1;
      want_q <= 16'd1 + {11'b0, out[23:19]} + {15'b0, |out[18:16]} + {11'b0, out[31:27]} + {15'b0, |out[26:24]} + {3'b0, out[47:35]} +
          {15'b0, |out[34:32]};  // words of the header, the key, the subkey and the value
    end

  // ---- s2: sums of 16-bit words --------------------------------------------------------------------------------------
  // l4_left: bytes of the IP packet from the beginning of this beat.
  logic [15:0] l4_left_q, l4_left_d;
  logic [ 7:0] l4_lanes_q;  // of this beat
  logic [17:0] ip_part_q, l4_part_q;
  logic [25:0] ip_sum_q, l4_sum_q;
  logic        part_q, part_first_q;
  logic [63:0] masked;
  assign masked = only(d_q, l4_lanes_q);
  assign l4_left_d = idx_q == 8'd2 ? be16(d_q[15:0]) - 16'd10 : l4_left_q > 16'd8 ? l4_left_q - 16'd8 : '0;
  always_ff @(posedge clk_i) begin
    part_q       <= v_q;
    part_first_q <= v_q && idx_q == 0;
    ip_part_q    <= '0;
    l4_part_q    <= '0;
    if (v_q) begin
      case (idx_q)
        8'd0: ;
        8'd1: ip_part_q <= sum4({d_q[63:48], 48'b0});
        8'd2: ip_part_q <= sum4(d_q);
        8'd3: begin
          ip_part_q <= sum4(d_q);
          l4_part_q <= is_udp ? sum4({d_q[63:16], 16'b0}) : '0;  // of the pseudo header: from, to
        end
        8'd4: begin
          ip_part_q <= sum4({48'b0, d_q[15:0]});
          l4_part_q <= sum4({masked[63:16], is_udp ? d_q[15:0] : 16'b0});
        end
        8'd255:  ;
        default: l4_part_q <= sum4(masked);
      endcase
      if (idx_q >= 8'd2) begin
        l4_left_q  <= l4_left_d;
        l4_lanes_q <= lanes_with(l4_left_d);
      end
    end
    if (part_q) begin
      ip_sum_q <= (part_first_q ? '0 : ip_sum_q) + 26'(ip_part_q);
      l4_sum_q <= (part_first_q ? '0 : l4_sum_q) + 26'(l4_part_q);
    end
  end

  // ---- the end of a frame: s1 keeps its facts, s2 adds the last part, s3 folds, s4 judges ------------------------------
  // Frames too short to have any of it are counted at once and not judged, so that they cannot overtake one that is being judged.
  logic ends;
  logic [3:1] end_q;
  assign ends = v_q && last_q && idx_q >= 8'd5;
  logic [11:0] bytes_q;
  logic runt_q, broken_q;
  logic [15:0] ip_fold_q, l4_fold_q, payload;
  logic eth_ok_q, fits_q, udp_fits_q, app_ok_q;  // of the frame's length, the IP packet in it, the datagram in that, the request in that
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      end_q  <= '0;
      runt_q <= 1'b0;
    end else begin
      end_q  <= {end_q[2:1], ends};
      runt_q <= v_q && last_q && idx_q < 8'd5;
    end
  always_ff @(posedge clk_i) begin
    if (ends) begin
      bytes_q  <= {1'b0, idx_q, 3'b000} + 12'(lanes_of(keep_q));
      broken_q <= bad_q || lanes_of(keep_q) == 0 || (idx_q != 0 && keep_bad_q) || idx_q >= 8'(MaxBeats);
    end
    if (end_q[2]) begin
      // The pseudo header's protocol and length are added where there is time.
      ip_fold_q <= fold(ip_sum_q);
      l4_fold_q <= fold(l4_sum_q + (is_udp_end_q ? 26'd17 + 26'(udp_len_end_q) : '0));
      // and what the lengths say of each other
      eth_ok_q <= !broken_q && bytes_q >= 12'd42 && bytes_q <= 12'd1514;
      fits_q <= total_end_q >= 16'd28 && 17'(bytes_q) >= 17'(total_end_q) + 17'd14;
      udp_fits_q <= udp_len_end_q == total_end_q - 16'd20;
      app_ok_q <= payload[2:0] == 0 && payload != 0 && head_ok_q && want_q == {3'b0, payload[15:3]};
    end
  end
  // Facts of the frame that ended; the next one's first beats may overwrite the fields above meanwhile.
  logic is_udp_end_q, is_icmp_end_q, is_arp_end_q, to_us_end_q, ver_ok_end_q, frag_end_q, ip_ours_end_q, has_csum_end_q;
  logic [15:0] total_end_q, udp_len_end_q, csum_end_q, sport_end_q, dport_end_q;
  logic [47:0] src_end_q, sha_end_q;
  logic [31:0] sip_end_q, id_seq_end_q, spa_end_q;
  logic arp_ok_end_q;
  assign payload = total_end_q - 16'd28;
  // Bytes 40 and 41, which are in the last beat if that is the fifth.
  logic [15:0] tail_now;
  assign tail_now = idx_q == 8'd5 ? be16(d_q[15:0]) : tail_q;
  always_ff @(posedge clk_i)
    if (ends) begin
      is_udp_end_q <= is_udp;
      is_icmp_end_q <= is_icmp;
      is_arp_end_q <= type_q == 16'h0806;
      to_us_end_q <= dst_q == mac_i || (type_q == 16'h0806 && &dst_q);
      ver_ok_end_q <= ver_q == 8'h45;
      frag_end_q <= frag_q[13] || frag_q[12:0] != 0 || frag_q[15];
      ip_ours_end_q <= type_q == 16'h0800 && dip_q == ip_i;
      total_end_q <= total_q;
      udp_len_end_q <= udp_len_q;
      csum_end_q <= dport_q;
      has_csum_end_q <= tail_now != 0;
      sport_end_q <= sport_q;
      dport_end_q <= dport_q;
      src_end_q <= src_q;
      sip_end_q <= sip_q;
      id_seq_end_q <= {udp_len_q, tail_now};
      sha_end_q <= sha_q;
      spa_end_q <= spa_q;
      // Ethernet, IPv4, 6 and 4 bytes, a request, for our address
      arp_ok_end_q <= arp_head_q == 64'h0001_0800_0604_0001 && {udp_len_q, tail_now} == ip_i;
    end

  // ---- s4: the verdict ---------------------------------------------------------------------------------------------
  // The request buffer took or lost what was written since the last verdict.
  logic req_full, echo_full, req_desc_ready, echo_desc_ready, arp_desc_ready;
  logic ours, ip_ok, l4_ok;
  logic judge, is_request, is_echo, is_arp, room;
  assign judge = end_q[3];
  assign ours = to_us_end_q && (is_arp_end_q ? arp_ok_end_q : is_udp_end_q || is_icmp_end_q);
  assign ip_ok = ver_ok_end_q && !frag_end_q && ip_fold_q == 16'hffff && fits_q;
  assign l4_ok = is_udp_end_q
      ? udp_fits_q && (!has_csum_end_q || l4_fold_q == 16'hffff)
      : l4_fold_q == 16'hffff;
  assign is_arp = eth_ok_q && ours && is_arp_end_q;
  assign is_request = eth_ok_q && ours && is_udp_end_q && ip_ok && ip_ours_end_q && dport_end_q == port_i && l4_ok && app_ok_q;
  assign is_echo = eth_ok_q && ours && is_icmp_end_q && ip_ok && ip_ours_end_q && sport_end_q == 16'h0800 && l4_ok;
  assign room = is_request ? !req_full && req_desc_ready : is_echo ? !echo_full && echo_desc_ready : arp_desc_ready;

  always_comb begin
    count_o = '0;
    taken_o = '0;
    count_o[6] = runt_q;                                                   // too short to be judged
    if (judge) begin
      if (!eth_ok_q) count_o[0] = 1'b1;                                    // broken on the wire, too short, too long
      else if (!ours) count_o[1] = 1'b1;                                 // not for us: address, type, protocol
      else if (is_arp) begin
        taken_o[2] = room;
        count_o[5] = !room;
      end else if (!ip_ok) count_o[2] = 1'b1;                            // IPv4 header, lengths, fragments
      else if (!ip_ours_end_q || (is_udp_end_q && dport_end_q != port_i) ||
               (is_icmp_end_q && sport_end_q != 16'h0800)) count_o[1] = 1'b1;
      else if (!l4_ok) count_o[3] = 1'b1;                                // UDP or ICMP: length or checksum
      else if (is_udp_end_q && !app_ok_q) count_o[4] = 1'b1;               // not a datagram of the protocol
      else if (!room) count_o[5] = 1'b1;                                 // no room
      else begin
        taken_o[0] = is_request;
        taken_o[1] = is_echo;
      end
    end
  end

  // ---- buffers and descriptors ---------------------------------------------------------------------------------------
  // A body belongs to the request buffer or to the echo buffer by its protocol; both are settled at every verdict.
  logic [1:0] unused_room;
  ki_frame_fifo #(
      .DEPTH(REQUEST_BEATS),
      .LANES(4)
  ) u_requests (
      .clk_i,
      .rst_ni,
      .wr_valid_i (wr && is_udp),
      .wr_data_i  (out),
      .commit_i   (judge && taken_o[0]),
      .rollback_i (judge && !taken_o[0]),
      .room_o     (unused_room[0]),
      .full_o     (req_full),
      .snk_valid_o(req_beat_valid_o),
      .snk_ready_i(req_beat_ready_i),
      .snk_data_o (req_beat_o)
  );
  ki_frame_fifo #(
      .DEPTH(ECHO_BEATS)
  ) u_echoes (
      .clk_i,
      .rst_ni,
      .wr_valid_i (wr && is_icmp),
      .wr_data_i  (out),
      .commit_i   (judge && taken_o[1]),
      .rollback_i (judge && !taken_o[1]),
      .room_o     (unused_room[1]),
      .full_o     (echo_full),
      .snk_valid_o(echo_beat_valid_o),
      .snk_ready_i(echo_beat_ready_i),
      .snk_data_o (echo_beat_o)
  );
  ki_fifo #(
      .WIDTH(104),
      .DEPTH(REQUESTS)
  ) u_request_descs (
      .clk_i,
      .rst_ni,
      .src_valid_i(taken_o[0]),
      .src_ready_o(req_desc_ready),
      .src_data_i ({payload[10:3], src_end_q, sip_end_q, sport_end_q}),
      .snk_valid_o(req_valid_o),
      .snk_ready_i(req_ready_i),
      .snk_data_o (req_desc_o)
  );
  ki_fifo #(
      .WIDTH(139),
      .DEPTH(4)
  ) u_echo_descs (
      .clk_i,
      .rst_ni,
      .src_valid_i(taken_o[1]),
      .src_ready_o(echo_desc_ready),
      .src_data_i ({payload[10:0], csum_end_q, id_seq_end_q, src_end_q, sip_end_q}),
      .snk_valid_o(echo_valid_o),
      .snk_ready_i(echo_ready_i),
      .snk_data_o (echo_desc_o)
  );
  ki_fifo #(
      .WIDTH(80),
      .DEPTH(4)
  ) u_arp_descs (
      .clk_i,
      .rst_ni,
      .src_valid_i(taken_o[2]),
      .src_ready_o(arp_desc_ready),
      .src_data_i ({sha_end_q, spa_end_q}),
      .snk_valid_o(arp_valid_o),
      .snk_ready_i(arp_ready_i),
      .snk_data_o (arp_desc_o)
  );
endmodule
