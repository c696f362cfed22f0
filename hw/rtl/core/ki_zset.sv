// A sorted set's side of a context: the operands of its request, what it asks the order unit, and the record that comes of the answer.
//
// The request's words are read from its body in the second clock of SExec, where ki_context has them stand. ZRANGE asks for one rank after
// another (SRange), and every answer becomes a record of four words in the cell's buffer (SRecord):
//
//      {score 64, member length 5 in a word, member 128}
//
// A new score is two operations: INSERT of the new one (SOrder), so that what fails has changed nothing, then REMOVE of the old (SOrder2).
module ki_zset #(
    parameter logic ON = 1'b1  // the context can do sorted sets
) (
    input  logic         clk_i,
    input  logic [ 28:0] st_i,         // the context's state (ki_states.svh)
    // the request
    input  logic         take_i,       // its operands are in `body_i`
    input  logic [255:0] body_i,
    input  logic [  1:0] val_i,        // lane before the member
    input  logic [  1:0] score_i,      // lane of the first word of the value
    input  logic [  6:0] slen_i,
    input  logic         zrem_i,
    input  logic         zpopmin_i,
    output logic [  3:0] want_o,       // records that ZRANGE asks for
    // the cell
    input  logic [ 63:0] c_score_i,
    output logic         equal_o,      // its score is the request's
    // to the order unit
    output logic         or_valid_o,
    output logic [  1:0] or_op_o,
    output logic [ 63:0] or_score_o,   // AT: the rank
    output logic [  4:0] or_mlen_o,
    output logic [127:0] or_member_o,
    // from it
    input  logic         orr_valid_i,
    input  logic [ 63:0] orr_score_i,
    input  logic [  4:0] orr_mlen_i,
    input  logic [127:0] orr_member_i,
    output logic [255:0] record_o
);
  `include "ki_defs.svh"
  `include "ki_states.svh"

  logic [127:0] member_q;
  logic [63:0] value_q;  // a score; rank and count
  logic [31:0] rank_q;
  if (ON) begin : g_on
    logic [1:0] member_at, second;  // lanes
    logic [63:0] value;
    assign member_at = val_i + 2'd1;
    assign second = val_i + 2'd2;
    assign value = body_i[{score_i, 6'd0}+:64];
    always_ff @(posedge clk_i)
      if (take_i) begin
        value_q  <= value;
        member_q <= {slen_i > 7'd8 ? body_i[{second, 6'd0}+:64] : 64'd0, body_i[{member_at, 6'd0}+:64]};
        rank_q   <= value[31:0];
      end else if (st_i[SRecord]) rank_q <= rank_q + 32'd1;
    always_ff @(posedge clk_i) want_o <= |value_q[63:36] || &value_q[35:32] ? 4'd14 : value_q[35:32];
  end else begin : g_off
    assign value_q = '0;
    assign member_q = '0;
    assign want_o = '0;
    assign rank_q = '0;
  end
  assign equal_o = c_score_i == value_q;

  always_comb begin
    or_valid_o  = st_i[SOrder] || st_i[SOrder2] || st_i[SRange];
    or_op_o     = OrInsert;
    or_score_o  = value_q;
    or_mlen_o   = slen_i[4:0];
    or_member_o = member_q;
    if (st_i[SOrder2] || (st_i[SOrder] && zrem_i)) begin
      or_op_o    = OrRemove;
      or_score_o = c_score_i;
    end
    if (st_i[SOrder] && zpopmin_i) or_op_o = OrPopmin;
    if (st_i[SRange]) begin
      or_op_o    = OrAt;
      or_score_o = {32'd0, rank_q};
    end
  end

  logic [63:0] rec_score_q;
  logic [4:0] rec_mlen_q;
  logic [127:0] rec_member_q;
  always_ff @(posedge clk_i)
    if (st_i[SOrderW] && orr_valid_i) {rec_score_q, rec_mlen_q, rec_member_q} <= {orr_score_i, orr_mlen_i, orr_member_i};
  assign record_o = {rec_member_q, 59'd0, rec_mlen_q, rec_score_q};
endmodule
