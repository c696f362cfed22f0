// What a context's answer would be if it started in this state: status, length, and where in the cell's buffer it lies. No register.
//
// The state machine says when an answer starts, and this what it says then; in a state that starts none the outputs mean nothing. So the
// two are decided beside one another, and not one behind the other.
//
//      a value, or a member   from the word before it (the header's place); its length is the cell's
//      records, counters      from the buffer's first word on, so that 63 is the word before it
module ki_reply (
    input  logic [28:0] st_i,         // the context's state (ki_states.svh)
    // the request
    input  logic [ 7:0] d_err_i,      // refused by the parser, and why
    input  logic [ 5:0] val_i,        // the key's last word: before a list's value, a set's member
    input  logic [ 5:0] cmp_i,        // the last word that is compared: before the value that is read
    input  logic        sismember_i,
    input  logic        sadd_i,
    input  logic        pop_i,        // LPOP, RPOP
    input  logic        spop_i,
    input  logic        zrem_i,
    input  logic        zpopmin_i,
    input  logic        zrange_i,
    // the cell
    input  logic        first_i,      // its first beat is what memory brings now
    input  logic [15:0] r_vlen_i,     // what that says of the value
    input  logic [ 5:0] r_vleft_i,
    input  logic [15:0] c_vlen_i,     // the same, in registers
    input  logic [ 5:0] c_vleft_i,    // words of an answer with it
    input  logic [ 6:0] c_slen_i,     // ... and of the subkey
    input  logic [ 5:0] c_sleft_i,
    // what went wrong
    input  logic        wrong_i,      // type
    input  logic        miss_i,
    input  logic [ 7:0] p_status_i,   // of a change that went well
    input  logic [ 7:0] fail_i,       // ... that was undone
    input  logic        orr_full_i,
    // records
    input  logic [ 3:0] rec_i,        // so far
    input  logic [ 3:0] want_i,
    // the answer
    output logic [ 7:0] status_o,
    output logic [15:0] len_o,        // bytes behind the header
    output logic [ 5:0] left_o,       // words, with the header
    output logic [ 5:0] from_o        // the word of the buffer in whose place the header comes
);
  `include "ki_defs.svh"
  `include "ki_states.svh"

  always_comb begin
    status_o = StOk;
    len_o = 16'd0;
    left_o = 6'd1;
    from_o = val_i;
    unique case (1'b1)
      st_i[SIdle]: begin
        status_o = d_err_i;
        from_o = 6'd0;
      end
      st_i[SRead], st_i[SCompare]: begin
        if (!sismember_i) begin
          len_o  = st_i[SRead] && first_i ? r_vlen_i : c_vlen_i;
          left_o = st_i[SRead] && first_i ? r_vleft_i : c_vleft_i;
        end
        from_o = cmp_i;
      end
      st_i[SExec]: begin
        status_o = wrong_i ? StWrongType : miss_i ? StMiss : sadd_i ? StReplaced : StOk;
        if (!wrong_i && !miss_i) begin
          len_o  = pop_i ? c_vlen_i : spop_i ? {9'd0, c_slen_i} : 16'd0;
          left_o = pop_i ? c_vleft_i : spop_i ? c_sleft_i : 6'd1;
        end
      end
      st_i[SScore]: status_o = StReplaced;
      st_i[SAlloc]: status_o = StNoMemory;
      st_i[SWrite], st_i[SLinkA], st_i[SLinkB]: status_o = p_status_i;
      st_i[SUndoF]: status_o = fail_i;
      st_i[STailW]: {len_o, left_o} = {c_vlen_i, c_vleft_i};
      // records, counters
      st_i[SOrderW]: begin
        status_o = zrange_i ? (rec_i == 0 ? StMiss : StOk) : zrem_i ? StOk : orr_full_i ? StFull : StNoMemory;
        if (zrange_i) {len_o, left_o} = {7'd0, rec_i, 5'd0, rec_i, 2'd1};
        from_o = 6'd63;
      end
      st_i[SRecord]: begin
        {len_o, left_o} = zpopmin_i ? {16'd32, 6'd5} : {7'd0, want_i, 5'd0, want_i, 2'd1};
        from_o = 6'd63;
      end
      st_i[SStats]: begin
        {len_o, left_o} = {16'd128, 6'd17};
        from_o = 6'd63;
      end
      default: ;
    endcase
  end
endmodule
