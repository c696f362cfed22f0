// Many streams into one: the answering half of the crossbar. A stream that was chosen keeps the port until its last beat, so packets never
// mix; the choice goes round, so none waits for more than one packet of each other. One register at the output.
//
// Proved in formal/merge.sby: beats leave in the order and with the data in which they came, packets do not mix, and whoever asks
// is served within a bounded number of beats.
module ki_merge #(
    parameter int N = 4,
    parameter int W = 64
) (
    input  logic           clk_i,
    input  logic           rst_ni,
    input  logic [  N-1:0] s_valid_i,
    output logic [  N-1:0] s_ready_o,
    input  logic [N*W-1:0] s_data_i,
    input  logic [  N-1:0] s_last_i,
    output logic           m_valid_o,
    input  logic           m_ready_i,
    output logic [  W-1:0] m_data_o,
    output logic           m_last_o,
    output logic [  N-1:0] m_from_o   // one hot: whose beat it is
);
  logic [N-1:0] lock_q, mask_q, pick, grant;
  logic locked_q;
  ki_pick #(.N(N)) u_pick (.req_i(s_valid_i), .mask_i(mask_q), .pick_o(pick));

  logic room, go;
  assign room = !m_valid_o || m_ready_i;
`ifdef MUTANT_MIX
  assign grant = pick;
`else
  assign grant = locked_q ? lock_q & s_valid_i : pick;
`endif
`ifdef MUTANT_DROP
  assign s_ready_o = grant;
`else
  assign s_ready_o = room ? grant : '0;
`endif
  assign go = room && |grant;

  logic [W-1:0] data;
  always_comb begin
    data = '0;
    for (int i = 0; i < N; i++) data = data | (s_data_i[i*W+:W] & {W{grant[i]}});
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      m_valid_o <= 1'b0;
      locked_q  <= 1'b0;
      lock_q    <= '0;
      mask_q    <= '0;
    end else begin
      if (room) m_valid_o <= |grant;
      if (go) begin
        locked_q <= !(|(grant & s_last_i));
        lock_q   <= grant;
`ifndef MUTANT_STARVE
        mask_q   <= ~(grant | (grant - 1'b1));  // those behind the one served come first next time
`endif
      end
    end
  always_ff @(posedge clk_i)
    if (room) begin  // without a grant too, so that only the sink's answer enables this many registers
      m_data_o <= data;
      m_last_o <= |(grant & s_last_i);
      m_from_o <= grant;
    end

`ifdef FORMAL
  `include "ki_merge_props.svh"
`endif
endmodule
