// For tests of the network side alone: ki_net and, in the engine's place, something that answers every request with the
// bytes of its own parts as the value, after a random delay for lack of better things to do.
module ki_net_echo #(
    parameter int SLOTS         = 16,
    parameter int REQUEST_BEATS = 512,
    parameter int ANSWER_BEATS  = 512
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    input  logic [ 47:0] mac_i,
    input  logic [ 31:0] ip_i,
    input  logic [ 15:0] port_i,
    input  logic         stall_i,     // the engine takes nothing now
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
    output logic [639:0] counters_o
);
  logic valid, ready, last, first_q, out_ready;
  logic [255:0] data, out_data;
  logic [3:0] keep;
  logic [15:0] tag;
  logic [15:0] parts;
  function automatic logic [15:0] padded(input logic [15:0] n);
    padded = (n + 16'd7) & 16'hfff8;
  endfunction
  assign parts = padded({8'b0, data[23:16]}) + padded({8'b0, data[31:24]}) + padded(data[47:32]);
  assign ready = out_ready && !stall_i;
  assign out_data = first_q ? {data[255:64], data[63:48], parts, 16'b0, 8'h00, data[7:0] | 8'h80} : data;
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) first_q <= 1'b1;
    else if (valid && ready) first_q <= last;

  ki_net #(
      .SLOTS(SLOTS),
      .REQUEST_BEATS(REQUEST_BEATS),
      .ANSWER_BEATS(ANSWER_BEATS)
  ) u_net (
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
      .tx_valid_o,
      .tx_ready_i,
      .tx_data_o,
      .tx_keep_o,
      .tx_last_o,
      .core_valid_o   (valid),
      .core_ready_i   (ready),
      .core_data_o    (data),
      .core_keep_o    (keep),
      .core_last_o    (last),
      .core_tag_o     (tag),
      .core_valid_i   (valid && !stall_i),
      .core_ready_o   (out_ready),
      .core_data_i    (out_data),
      .core_keep_i    (keep),
      .core_last_i    (last),
      .core_tag_i     ({1'b0, tag}),
      .counters_o
  );
endmodule
