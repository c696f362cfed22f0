// Many streams into one: the answering half of the crossbar. A stream that was chosen keeps the port until its last beat, so packets never
// mix; the choice goes round, so none waits for more than one packet of each other.
//
// Who has the port stands in a register, so between the streams' registers and the sink are two levels of gates. The choice for the next
// clock is made in this one, among those that ask: a stream asks a clock before it has something to give (s_req_i; else the choice would
// cost that clock), and may ask in vain. The port goes on to somebody else when a packet ends, or when its holder has nothing and is
// not inside a packet.
//
// Proved in formal/merge.sby: beats leave in the order and with the data in which they came, packets do not mix, and whoever asks
// is served within a bounded number of beats.
module ki_merge #(
    parameter int N = 4,
    parameter int W = 64
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic [  N-1:0] s_req_i,    // has a beat, or may have one in the next clock; never low with valid
    input  logic [  N-1:0] s_valid_i,
    output logic [  N-1:0] s_ready_o,
    input  logic [N*W-1:0] s_data_i,
    input  logic [  N-1:0] s_last_i,
    output logic           m_valid_o,
    input  logic           m_ready_i,
    output logic [  W-1:0] m_data_o,
    output logic           m_last_o,
    output logic [  N-1:0] m_from_o    // one hot: whose beat it is
);
  logic [N-1:0] own_q, mask_q, pick;  // who has the port; who comes first next time
  logic inside_q;                     // a packet has begun
  ki_pick #(.N(N)) u_pick (.req_i(s_req_i), .mask_i(mask_q), .pick_o(pick));

  logic over;
  assign m_valid_o = |(own_q & s_valid_i);
  assign m_last_o  = |(own_q & s_last_i);
  assign m_from_o  = own_q;
`ifdef MUTANT_DROP
  assign s_ready_o = own_q;
`else
  assign s_ready_o = m_ready_i ? own_q : '0;
`endif
`ifdef MUTANT_MIX
  assign over = m_valid_o ? m_ready_i : 1'b1;
`else
  assign over = m_valid_o ? m_ready_i && m_last_o : !inside_q;
`endif
  always_comb begin
    m_data_o = '0;
    for (int i = 0; i < N; i++) m_data_o = m_data_o | (s_data_i[i*W+:W] & {W{own_q[i]}});
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      own_q    <= '0;
      mask_q   <= '0;
      inside_q <= 1'b0;
    end else begin
      if (m_valid_o && m_ready_i) inside_q <= !m_last_o;
      if (over) begin
        own_q <= pick;
`ifndef MUTANT_STARVE
        mask_q <= ~(pick | (pick - 1'b1));  // those behind the one chosen
`endif
      end
    end

`ifdef FORMAL
  `include "ki_merge_props.svh"
`endif
endmodule
