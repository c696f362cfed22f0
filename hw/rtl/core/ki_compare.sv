// Comparing of a context: is the cell that comes (from memory, or from the buffer) the one that the request means?
//
// A beat of the cell stands against a beat of the request: lengths in word 0, nothing in word 1, then the body up to the last word of the
// key. What comes from memory and what the buffer keeps have flags of their own, so that no choice stands before the comparators.
//
// It takes two clocks, and costs one: a beat is compared as it arrives, four lanes into a flag each, and the flags are looked at in the
// next clock, while the step behind the comparison is under way already and its answer is armed. If the flags say no, that step has
// changed nothing but registers that the next one writes anew (SExec writes the whole plan; only its leaving has effects).
//
//      clock t      the key's last beat arrives; lane flags; state -> SExec, a read's answer armed
//            t+1    good: plan made, answer's first beat into its register          not good: SRead, or SLook for another fingerprint
module ki_compare (
    input  logic         clk_i,
    // the request
    input  logic [255:0] body_i,    // the beat of its body that stands against the cell's
    input  logic [  6:0] klen_i,
    input  logic [  6:0] slen_i,
    input  logic         item_i,    // key and subkey, else the key alone
    input  logic [  5:0] upto_i,    // the last word that is compared
    // the cell
    input  logic         begin_i,   // the next beat is of another cell
    input  logic [  4:0] rcnt_i,    // the number of this beat
    input  logic         came_i,    // it is in `r_data_i`
    input  logic [255:0] r_data_i,
    input  logic         kept_i,    // it is in `cached_i`
    input  logic [255:0] cached_i,
    // in the same clock
    output logic         step_o,    // a beat is compared
    output logic         last_o,    // the beat `rcnt_i` ends it
    // a clock later
    output logic         chk_o,     // the last beat was compared in the clock before
    output logic         good_o     // all beats were equal so far
);
  logic cmp_first, eq_q;             // eq: all before the beat whose flags these are
  logic [3:0] came_eq_q, kept_eq_q;  // lanes that do not differ
  assign cmp_first = rcnt_i == 0;
  assign last_o = rcnt_i == {1'b0, upto_i[5:2]};
  assign step_o = came_i || kept_i;
  assign good_o = eq_q && &came_eq_q && &kept_eq_q;
  function automatic logic [3:0] lanes_equal(input logic [255:0] beat);
    for (int l = 0; l < 4; l++)
      lanes_equal[l] = beat[l*64+:64] == body_i[l*64+:64] || (last_o && l[1:0] > upto_i[1:0]) || (cmp_first && l == 1);
    if (cmp_first) lanes_equal[0] = beat[7:0] == {1'b0, klen_i} && (!item_i || beat[15:8] == {1'b0, slen_i});
  endfunction
  always_ff @(posedge clk_i) begin
    came_eq_q <= lanes_equal(r_data_i) | {4{!came_i}};
    kept_eq_q <= lanes_equal(cached_i) | {4{!kept_i}};
    eq_q <= good_o || begin_i;
    chk_o <= step_o && last_o;
  end
endmodule
