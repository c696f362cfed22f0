// The network side: from the MAC's frames to the core's requests, and from its answers to frames.
//
//   MAC -> ki_net_rx -> ki_return_table -> core
//   MAC <- ki_net_tx <-   (addresses)   <- core
//              ^--- ARP, echo --- ki_net_rx
//
// The core's side of the seam: payloads of UDP datagrams as 256-bit AXI-Stream, byte 0 in lane 0, words of 8 bytes of which
// only a last beat has fewer than four, already checked as far as spec/wire.md's "No answer" goes; a 16-bit tag with each; exactly one answer a request, in any order.
module ki_net #(
    parameter int SLOTS         = 256,
    parameter int REQUEST_BEATS = 2048,
    parameter int ANSWER_BEATS  = 512
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [ 47:0] mac_i,
    input  logic [ 31:0] ip_i,
    input  logic [ 15:0] port_i,
    // the MAC
    input  logic         rx_valid_i,
    input  logic [ 63:0] rx_data_i,
    input  logic [  7:0] rx_keep_i,
    input  logic         rx_last_i,
    input  logic         rx_user_i,
    output logic         tx_valid_o,
    input  logic         tx_ready_i,
    output logic [ 63:0] tx_data_o,
    output logic [  7:0] tx_keep_o,
    output logic         tx_last_o,
    // the core
    output logic         core_valid_o,
    input  logic         core_ready_i,
    output logic [255:0] core_data_o,
    output logic [  3:0] core_keep_o,
    output logic         core_last_o,
    output logic [ 15:0] core_tag_o,
    input  logic         core_valid_i,
    output logic         core_ready_o,
    input  logic [255:0] core_data_i,
    input  logic [  3:0] core_keep_i,
    input  logic         core_last_i,
    input  logic [ 16:0] core_tag_i,
    // counters of 64 bits: {no room, not ours, UDP or ICMP, IPv4, broken, dropped datagrams, ARP, echoes, answers, requests}
    output logic [639:0] counters_o
);
  logic req_valid, req_ready, req_beat_valid, req_beat_ready;
  logic [103:0] req_desc;
  logic [255:0] req_beat;
  logic echo_valid, echo_ready, echo_beat_valid, echo_beat_ready;
  logic [138:0] echo_desc;
  logic [ 63:0] echo_beat;
  logic arp_valid, arp_ready;
  logic [79:0] arp_desc;
  logic [ 2:0] taken, sent;
  logic [6:0] count;
  logic look_valid;
  logic [15:0] look_tag;
  logic [95:0] look_address;

  // ---- counters ------------------------------------------------------------------------------------------------------
  logic [63:0] requests_q, answers_q, echoes_q, arps_q, dropped_q, broken_q, ip_q, l4_q, others_q, no_room_q;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      {requests_q, answers_q, echoes_q, arps_q, dropped_q, broken_q, ip_q, l4_q, others_q, no_room_q} <= '0;
    end else begin
      requests_q <= requests_q + 64'(taken[0]);
      answers_q  <= answers_q + 64'(sent[0]);
      echoes_q   <= echoes_q + 64'(sent[1]);
      arps_q     <= arps_q + 64'(sent[2]);
      broken_q   <= broken_q + 64'(count[0]) + 64'(count[6]);
      others_q   <= others_q + 64'(count[1]);
      ip_q       <= ip_q + 64'(count[2]);
      l4_q       <= l4_q + 64'(count[3]);
      dropped_q  <= dropped_q + 64'(count[4]);
      no_room_q  <= no_room_q + 64'(count[5]);
    end
  assign counters_o = {no_room_q, others_q, l4_q, ip_q, broken_q, dropped_q, arps_q, echoes_q, answers_q, requests_q};

  ki_net_rx #(
      .REQUEST_BEATS(REQUEST_BEATS)
  ) u_rx (
      .clk_i,
      .rst_ni,
      .mac_i,
      .ip_i,
      .port_i,
      .rx_valid_i,
      .rx_data_i,
      .rx_keep_i,
      .rx_last_i,
      .rx_user_i,
      .req_valid_o      (req_valid),
      .req_ready_i      (req_ready),
      .req_desc_o       (req_desc),
      .req_beat_valid_o (req_beat_valid),
      .req_beat_ready_i (req_beat_ready),
      .req_beat_o       (req_beat),
      .echo_valid_o     (echo_valid),
      .echo_ready_i     (echo_ready),
      .echo_desc_o      (echo_desc),
      .echo_beat_valid_o(echo_beat_valid),
      .echo_beat_ready_i(echo_beat_ready),
      .echo_beat_o      (echo_beat),
      .arp_valid_o      (arp_valid),
      .arp_ready_i      (arp_ready),
      .arp_desc_o       (arp_desc),
      .taken_o          (taken),
      .count_o          (count)
  );

  ki_return_table #(
      .SLOTS(SLOTS)
  ) u_return (
      .clk_i,
      .rst_ni,
      .req_valid_i     (req_valid),
      .req_ready_o     (req_ready),
      .req_desc_i      (req_desc),
      .req_beat_valid_i(req_beat_valid),
      .req_beat_ready_o(req_beat_ready),
      .req_beat_i      (req_beat),
      .core_valid_o,
      .core_ready_i,
      .core_data_o,
      .core_keep_o,
      .core_last_o,
      .core_tag_o,
      .look_valid_i    (look_valid),
      .look_tag_i      (look_tag),
      .look_address_o  (look_address)
  );

  ki_net_tx #(
      .ANSWER_BEATS(ANSWER_BEATS)
  ) u_tx (
      .clk_i,
      .rst_ni,
      .mac_i,
      .ip_i,
      .port_i,
      .ans_valid_i      (core_valid_i),
      .ans_ready_o      (core_ready_o),
      .ans_data_i       (core_data_i),
      .ans_keep_i       (core_keep_i),
      .ans_last_i       (core_last_i),
      .ans_tag_i        (core_tag_i),
      .look_valid_o     (look_valid),
      .look_tag_o       (look_tag),
      .look_address_i   (look_address),
      .echo_valid_i     (echo_valid),
      .echo_ready_o     (echo_ready),
      .echo_desc_i      (echo_desc),
      .echo_beat_valid_i(echo_beat_valid),
      .echo_beat_ready_o(echo_beat_ready),
      .echo_beat_i      (echo_beat),
      .arp_valid_i      (arp_valid),
      .arp_ready_o      (arp_ready),
      .arp_desc_i       (arp_desc),
      .tx_valid_o,
      .tx_ready_i,
      .tx_data_o,
      .tx_keep_o,
      .tx_last_o,
      .sent_o           (sent)
  );
endmodule
