// The packet generator: answers, echoes and ARP replies become frames.
//
//   core's answers --> buffer, sum ----+
//   echoes (as ki_net_rx keeps them) --+--> [choose, look up, add, fold] --> header 42 bytes --+--> MAC
//   ARP requests ----------------------+         while the frame before is being sent         |
//                                                payload from its buffer --------------------->+
//
//   beat  0 .. 4      5                      6 ..
//         header      2 of header | 6 of it  2 of payload beat n-1 | 6 of beat n
//
// A UDP checksum stands before what it is a sum of, so an answer is buffered whole. The next frame's header is made while one
// is being sent; frames leave back to back. An echo's checksum follows from the request's (RFC 1624), without its data.
// Nobody starves: after a frame of one kind, the others are asked first.
// An answer of length zero whose tag has bit 16 set frees its slot and sends nothing.
module ki_net_tx #(
    parameter int ANSWER_BEATS = 512,  // size of the answer buffer, in words of 8 bytes; at least twice the longest answer
    parameter int ANSWERS      = 64
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [ 47:0] mac_i,
    input  logic [ 31:0] ip_i,
    input  logic [ 15:0] port_i,
    // answers
    input  logic         ans_valid_i,
    output logic         ans_ready_o,
    input  logic [255:0] ans_data_i,
    input  logic [  3:0] ans_keep_i,  // words that are there, from the lowest
    input  logic         ans_last_i,
    input  logic [ 16:0] ans_tag_i,
    // where they go: ki_return_table
    output logic         look_valid_o,
    output logic [ 15:0] look_tag_o,
    input  logic [ 95:0] look_address_i,
    // echoes and ARP requests, as ki_net_rx describes them
    input  logic         echo_valid_i,
    output logic         echo_ready_o,
    input  logic [138:0] echo_desc_i,
    input  logic         echo_beat_valid_i,
    output logic         echo_beat_ready_o,
    input  logic [ 63:0] echo_beat_i,
    input  logic         arp_valid_i,
    output logic         arp_ready_o,
    input  logic [ 79:0] arp_desc_i,
    // frames to the MAC, at least 60 bytes, without frame check sequence
    output logic         tx_valid_o,
    input  logic         tx_ready_i,
    output logic [ 63:0] tx_data_o,
    output logic [  7:0] tx_keep_o,
    output logic         tx_last_o,
    // for one clock when the frame has left: answer, echo, ARP
    output logic [  2:0] sent_o
);
  function automatic logic [15:0] be16(input logic [15:0] lanes);
    be16 = {lanes[7:0], lanes[15:8]};
  endfunction
  function automatic logic [17:0] sum4(input logic [63:0] d);
    sum4 = 18'(be16(d[15:0])) + 18'(be16(d[31:16])) + 18'(be16(d[47:32])) + 18'(be16(d[63:48]));
  endfunction
  function automatic logic [15:0] fold(input logic [24:0] s);
    logic [16:0] once;
    begin
      once = {1'b0, s[15:0]} + {8'b0, s[24:16]};
      fold = once[15:0] + {15'b0, once[16]};
    end
  endfunction
  // Bytes as they go on the wire: the first one, highest in the number, to lane 0.
  function automatic logic [335:0] to_lanes(input logic [335:0] bytes);
    for (int i = 0; i < 42; i++) to_lanes[8*i+:8] = bytes[8*(41-i)+:8];
  endfunction

  // ---- answers come in ---------------------------------------------------------------------------------------------
  logic room, settle_q, drop_q, meta_ready, put, lost, part_v_q, part_last_q;
  logic [71:0] part_q;  // sums of a beat's words
  logic [15:0] tag_q;
  logic [ 7:0] beats_q;
  logic [24:0] sum_q;  // 59 beats of four words need 24 bits
  logic ans_valid, ans_take, pay_valid, pay_ready;
  logic [255:0] pay_data;
  logic        m_drop;
  logic [15:0] m_tag, m_sum;
  logic [ 7:0] m_beats;
  assign ans_ready_o = room && !settle_q && !(part_v_q && part_last_q);
  assign put         = ans_valid_i && ans_ready_o;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      settle_q <= 1'b0;
      part_v_q <= 1'b0;
      drop_q   <= 1'b0;
      tag_q    <= '0;
      beats_q  <= '0;
      sum_q    <= '0;
    end else if (settle_q) begin
      if (meta_ready) begin
        settle_q <= 1'b0;
        beats_q  <= '0;
        sum_q    <= '0;
      end
    end else begin
      part_v_q <= put;
      settle_q <= part_v_q && part_last_q;
      if (put) begin
        drop_q  <= ans_tag_i[16];
        tag_q   <= ans_tag_i[15:0];
        beats_q <= beats_q + 8'(ans_keep_i[0]) + 8'(ans_keep_i[1]) + 8'(ans_keep_i[2]) + 8'(ans_keep_i[3]);
      end
      if (part_v_q) sum_q <= sum_q + 25'(part_q[18*0+:18]) + 25'(part_q[18*1+:18]) + 25'(part_q[18*2+:18]) + 25'(part_q[18*3+:18]);
    end
  always_ff @(posedge clk_i) begin
    part_last_q <= ans_last_i;
    for (int l = 0; l < 4; l++) part_q[18*l+:18] <= ans_keep_i[l] ? sum4(ans_data_i[64*l+:64]) : '0;
  end

  ki_frame_fifo #(
      .WIDTH(256),
      .DEPTH(ANSWER_BEATS / 4)
  ) u_answers (
      .clk_i,
      .rst_ni,
      .wr_valid_i (put && !ans_tag_i[16]),
      .wr_data_i  (ans_data_i),
      .commit_i   (settle_q && meta_ready),
      .rollback_i (1'b0),
      .room_o     (room),
      .full_o     (lost),
      .snk_valid_o(pay_valid),
      .snk_ready_i(pay_ready),
      .snk_data_o (pay_data)
  );
  ki_fifo #(
      .WIDTH(41),
      .DEPTH(ANSWERS)
  ) u_metas (
      .clk_i,
      .rst_ni,
      .src_valid_i(settle_q),
      .src_ready_o(meta_ready),
      .src_data_i ({drop_q, tag_q, beats_q, fold(sum_q)}),
      .snk_valid_o(ans_valid),
      .snk_ready_i(ans_take),
      .snk_data_o ({m_drop, m_tag, m_beats, m_sum})
  );

  // ---- the next header ---------------------------------------------------------------------------------------------
  typedef enum logic [2:0] {
    Choose,
    Take,
    Add,
    Fold,
    Ready
  } prep_e;
  typedef enum logic [1:0] {
    Answer,
    Echo,
    Arp
  } kind_e;
  prep_e prep_q;
  kind_e kind_q, last_q, pick;
  logic        any;
  logic [10:0] length_q;  // of what follows the 42 bytes
  logic [47:0] to_mac_q;
  logic [31:0] to_ip_q;
  logic [15:0] to_port_q, sum_part_q;
  logic [31:0] id_seq_q;
  logic [24:0] ip_sum_q, l4_sum_q;
  logic [15:0] ip_csum_q, l4_csum_q;
  logic [15:0] total, udp_len, l4_folded;
  logic [335:0] header;
  logic load;

  assign total = 16'd28 + 16'(length_q);
  assign udp_len = 16'd8 + 16'(length_q);

  always_comb begin
    pick = Answer;
    any  = ans_valid || echo_valid_i || arp_valid_i;
    // In the order ARP, echo, answer, from the one behind the last.
    if (last_q == Answer) begin
      if (arp_valid_i) pick = Arp;
      else if (echo_valid_i) pick = Echo;
    end else if (last_q == Arp) begin
      if (echo_valid_i) pick = Echo;
      else if (!ans_valid) pick = Arp;
    end else if (!ans_valid) begin
      if (arp_valid_i) pick = Arp;
      else pick = Echo;
    end
  end

  assign ans_take     = prep_q == Choose && any && pick == Answer;
  assign echo_ready_o = prep_q == Choose && any && pick == Echo;
  assign arp_ready_o  = prep_q == Choose && any && pick == Arp;
  assign look_valid_o = ans_take;
  assign look_tag_o   = m_tag;
  assign l4_folded    = ~fold(l4_sum_q);

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      prep_q <= Choose;
      last_q <= Answer;
    end else
      case (prep_q)
        Choose:
        if (any) begin
          last_q <= pick;
          if (pick != Answer) prep_q <= Add;
          else if (!m_drop) prep_q <= Take;
        end
        Take: prep_q <= Add;
        Add: prep_q <= Fold;
        Fold: prep_q <= Ready;
        Ready: if (load) prep_q <= Choose;
        default: prep_q <= Choose;
      endcase

  always_ff @(posedge clk_i)
    case (prep_q)
      Choose: begin
        kind_q <= pick;
        case (pick)
          Echo: begin
            {length_q, sum_part_q, id_seq_q, to_mac_q, to_ip_q} <= echo_desc_i;
          end
          Arp: begin
            {to_mac_q, to_ip_q} <= arp_desc_i;
            length_q <= '0;
          end
          default: begin
            length_q   <= {m_beats, 3'b000};
            sum_part_q <= m_sum;
          end
        endcase
      end
      Take: {to_mac_q, to_ip_q, to_port_q} <= look_address_i;
      Add: begin
        ip_sum_q <= 25'h4500 + 25'(total) + 25'h4000 + (kind_q == Echo ? 25'h4001 : 25'h4011)
            + 25'(ip_i[31:16]) + 25'(ip_i[15:0]) + 25'(to_ip_q[31:16]) + 25'(to_ip_q[15:0]);
        l4_sum_q <= kind_q == Echo
            // The type went from 8 to 0: ~(~old + ~0800h), RFC 1624.
            ? {9'b0, ~sum_part_q} + 25'hf7ff
            : 25'(ip_i[31:16]) + 25'(ip_i[15:0]) + 25'(to_ip_q[31:16]) + 25'(to_ip_q[15:0])
              + 25'h11 + 25'(udp_len) + 25'(udp_len) + 25'(port_i) + 25'(to_port_q) + 25'(sum_part_q);
      end
      Fold: begin
        ip_csum_q <= ~fold(ip_sum_q);
        // To UDP 0 means none, so a sum of 0 is written as its other zero.
        l4_csum_q <= kind_q == Answer && l4_folded == 0 ? 16'hffff : l4_folded;
      end
      default: ;
    endcase

  always_comb
    case (kind_q)
      Arp:
      header = to_lanes(
          {
            to_mac_q, mac_i, 16'h0806,
            16'h0001, 16'h0800, 8'd6, 8'd4, 16'h0002, mac_i, ip_i, to_mac_q, to_ip_q
          }
      );
      Echo:
      header = to_lanes(
          {
            to_mac_q, mac_i, 16'h0800,
            8'h45, 8'h00, total, 16'h0000, 16'h4000, 8'd64, 8'd1, ip_csum_q, ip_i, to_ip_q,
            16'h0000, l4_csum_q, id_seq_q
          }
      );
      default:
      header = to_lanes(
          {
            to_mac_q, mac_i, 16'h0800,
            8'h45, 8'h00, total, 16'h0000, 16'h4000, 8'd64, 8'd17, ip_csum_q, ip_i, to_ip_q,
            port_i, to_port_q, udp_len, l4_csum_q
          }
      );
    endcase

  // ---- a frame goes out ----------------------------------------------------------------------------------------------
  logic busy_q;
  kind_e out_kind_q;
  logic [319:0] head_q;       // header beats that are still to go
  logic [15:0] low_q;         // the two lowest lanes of the next beat behind the header
  logic [7:0] beat_q, last_beat_q;
  logic [7:0] last_keep_q;
  logic [7:0] pay_left_q;
  logic [1:0] lane_q;         // of the answer's beat: the word that is next
  logic in_head, needs, have, step;
  logic [63:0] body;
  logic [11:0] size;

  assign size = length_q < 11'd18 ? 12'd60 : 12'd42 + 12'(length_q);
  assign in_head = beat_q < 8'd5;
  assign needs = !in_head && pay_left_q != 0;
  assign have = out_kind_q == Echo ? echo_beat_valid_i : pay_valid;
  assign body = !needs ? 64'b0 : out_kind_q == Echo ? echo_beat_i : pay_data[64*lane_q+:64];
  assign tx_valid_o = busy_q && (!needs || have);
  assign tx_data_o = in_head ? head_q[63:0] : {body[47:0], low_q};
  assign tx_last_o = beat_q == last_beat_q;
  assign tx_keep_o = tx_last_o ? last_keep_q : 8'hff;
  assign step = tx_valid_o && tx_ready_i;
  assign pay_ready = step && needs && out_kind_q != Echo && (lane_q == 2'd3 || pay_left_q == 8'd1);
  assign echo_beat_ready_o = step && needs && out_kind_q == Echo;
  assign load = prep_q == Ready && (!busy_q || (step && tx_last_o));
  assign sent_o = (step && tx_last_o) ? {out_kind_q == Arp, out_kind_q == Echo, out_kind_q == Answer} : 3'b0;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) busy_q <= 1'b0;
    else if (load) busy_q <= 1'b1;
    else if (step && tx_last_o) busy_q <= 1'b0;

  always_ff @(posedge clk_i)
    if (load) begin
      out_kind_q  <= kind_q;
      {low_q, head_q} <= header;
      beat_q      <= '0;
      last_beat_q <= 8'((size - 12'd1) >> 3);
      last_keep_q <= 8'hff >> (3'd0 - size[2:0]);
      pay_left_q  <= 8'((length_q + 11'd7) >> 3);
      lane_q      <= '0;
    end else if (step) begin
      beat_q <= beat_q + 1'b1;
      head_q <= {64'b0, head_q[319:64]};
      if (!in_head) low_q <= body[63:48];
      if (needs) begin
        pay_left_q <= pay_left_q - 1'b1;
        lane_q     <= lane_q + 1'b1;
      end
    end

`ifdef VERILATOR  // Icarus has no named immediate assertions
  logic was_q;
  logic [72:0] held_q;
  always_ff @(posedge clk_i) begin
    was_q  <= rst_ni && tx_valid_o && !tx_ready_i;
    held_q <= {tx_last_o, tx_keep_o, tx_data_o};
    if (rst_ni) begin
      a_stable : assert (!was_q || (tx_valid_o && held_q == {tx_last_o, tx_keep_o, tx_data_o}));
      a_nothing_lost : assert (!lost);
      a_answer_not_too_long : assert (beats_q <= 8'd184);
    end
  end
`endif
endmodule
