// The requests that wait in a context: descriptors and bodies, first in first out, and a reader over the body of the oldest.
//
// A body lies in four banks, a word of each in a beat. The reader runs a beat ahead: `beat_o` is a register, the banks' addresses are
// registers, and between them is only the memory. So what compares or writes a beat starts from a register in every clock.
//
//        seek --> address of each bank --load--> beat_o          seek: the next load gives the four words from `from_i` on, each in its
//                   + 1 with each load                                 own bank's lane (a multiple of four: a beat as it was written)
module ki_queue #(
    parameter int DESC_BITS  = 137,
    parameter int DEPTH_BITS = 2     // 2**n requests
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    // in: a descriptor, and behind it the beats of its body
    input  logic                 desc_valid_i,
    input  logic [DESC_BITS-1:0] desc_i,
    output logic                 full_o,
    input  logic                 body_valid_i,
    input  logic [          3:0] body_idx_i,
    input  logic [        255:0] body_data_i,
    // the oldest
    output logic                 have_o,
    output logic [DESC_BITS-1:0] head_o,
    output logic                 late_o,       // its body is still coming
    input  logic                 pop_i,
    // its body
    input  logic                 seek_i,
    input  logic [          5:0] from_i,
    input  logic                 load_i,
    output logic [        255:0] beat_o
);
  logic [DESC_BITS-1:0] desc_mem[2**DEPTH_BITS];
  logic [DEPTH_BITS:0] wr_q, rd_q, rd_next;
  logic [DEPTH_BITS-1:0] last_q;  // the newest: its body is coming
  assign have_o  = wr_q != rd_q;
  assign full_o  = (wr_q ^ rd_q) == {1'b1, {DEPTH_BITS{1'b0}}};
  assign late_o  = body_valid_i && last_q == rd_q[DEPTH_BITS-1:0];
  assign rd_next = rd_q + 1'b1;
  always_ff @(posedge clk_i) begin
    if (desc_valid_i) desc_mem[wr_q[DEPTH_BITS-1:0]] <= desc_i;
    if (pop_i && rd_next != wr_q) head_o <= desc_mem[rd_next[DEPTH_BITS-1:0]];
    else if (pop_i || !have_o) head_o <= desc_i;
  end
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      wr_q   <= '0;
      rd_q   <= '0;
      last_q <= '0;
    end else begin
      if (desc_valid_i) begin
        wr_q   <= wr_q + 1'b1;
        last_q <= wr_q[DEPTH_BITS-1:0];
      end
      if (pop_i) rd_q <= rd_next;
    end

  logic [3:0] behind;  // banks whose word is in the next beat
  assign behind = (4'd1 << from_i[1:0]) - 4'd1;
  for (genvar k = 0; k < 4; k++) begin : g_bank
    (* ram_style = "distributed" *)  // a block's output is slower than what it would be compared with allows
    logic [63:0] bank[16*(2**DEPTH_BITS)];
    logic [3:0] at_q;
    always_ff @(posedge clk_i) begin
      if (body_valid_i) bank[{last_q, body_idx_i}] <= body_data_i[k*64+:64];
      if (load_i) beat_o[k*64+:64] <= bank[{rd_q[DEPTH_BITS-1:0], at_q}];
      if (seek_i) at_q <= from_i[5:2] + {3'd0, behind[k]};
      else if (load_i) at_q <= at_q + 4'd1;
    end
  end
endmodule
