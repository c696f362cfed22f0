// The answer of a context, and the buffer of the cell that it is read from.
//
// The buffer has four banks and is read at any word, four words from there on: each bank has an address of its own in a register, so that
// between that register and the output's are the memory, a choice between it and what memory brings in this clock, and a rotation of lanes.
//
//      word of the cell       v-1   v   v+1  v+2  v+3 ...          v: the first of the value (or member). v-1 is the header's place, so
//      first beat of answer  {hdr, v0,  v1,  v2}                      the value is rotated once, and not shifted by a word
//
// An answer can be armed a clock before it is known to be right (the last beat of the key is being compared): its first beat leaves if
// `good_i` holds in the next clock, and otherwise nothing was said.
module ki_answer (
    input  logic         clk_i,
    input  logic         rst_ni,
    // what memory brings, and the buffer's writer
    input  logic         r_valid_i,
    input  logic [255:0] r_data_i,
    input  logic         rd_busy_i,   // beats are still to come, the next one is
    input  logic [  4:0] rcnt_i,
    input  logic         cb_we_i,
    input  logic [  3:0] cb_waddr_i,
    input  logic [255:0] cb_wdata_i,
    // the buffer's reader outside of an answer: the beat that `from_i` names, then with each `next_i` the one behind
    input  logic         next_i,
    output logic [255:0] beat_o,
    // an answer: from what stands here in the clock of arm or start
    input  logic         arm_i,
    input  logic         good_i,
    input  logic         start_i,
    input  logic [  7:0] status_i,
    input  logic [ 15:0] len_i,       // bytes behind the header
    input  logic [  5:0] left_i,      // words, with the header
    input  logic [  5:0] from_i,      // the word in lane 0
    // for the whole of it
    input  logic [  7:0] op_i,
    input  logic [ 15:0] id_i,
    input  logic [ 15:0] tag_i,
    input  logic         drop_i,
    output logic         busy_o,      // beats are still in the buffer
    // out
    output logic         m_req_o,     // a beat is there, or may be in the next clock
    output logic         m_valid_o,
    input  logic         m_ready_i,
    output logic [255:0] m_data_o,
    output logic [  3:0] m_keep_o,
    output logic         m_last_o,
    output logic [ 16:0] m_user_o,
    output logic [  7:0] m_status_o
);
  logic busy_q, armed_q, head_q;
  logic [7:0] status_q;
  logic [15:0] len_q;
  logic [5:0] left_q;   // words, with the header
  logic [4:0] need_q;   // the beat of the cell that the last lane needs
  logic [1:0] shift_q;  // lanes
  logic live, ready, room, go;
  assign live  = busy_q || (armed_q && good_i);
  assign ready = !rd_busy_i || need_q < rcnt_i || (need_q == rcnt_i && r_valid_i) || (head_q && left_q == 6'd1);
  assign room  = !m_valid_o || m_ready_i;
  assign go    = live && ready && room;
  assign busy_o = busy_q;
  assign m_req_o = busy_q || armed_q || m_valid_o;

  // ---- the buffer ------------------------------------------------------------------------------------------------
  logic [255:0] banks, out;
  logic [3:0] behind;  // banks whose word is in the next beat
  assign behind = (4'd1 << from_i[1:0]) - 4'd1;
  for (genvar k = 0; k < 4; k++) begin : g_bank
    (* ram_style = "distributed" *)
    logic [63:0] cb[16];
    logic [3:0] at_q;
    always_ff @(posedge clk_i) begin
      if (cb_we_i) cb[cb_waddr_i] <= cb_wdata_i[k*64+:64];
      if (busy_q || armed_q) at_q <= at_q + {3'd0, go};
      else if (next_i) at_q <= at_q + 4'd1;
      else at_q <= from_i[5:2] + {3'd0, behind[k]};
    end
    assign beat_o[k*64+:64] = cb[at_q];
    // what comes from memory in this clock can leave in it (whether it came, `ready` knows)
    assign banks[k*64+:64] = rd_busy_i && rcnt_i[3:0] == at_q ? r_data_i[k*64+:64] : cb[at_q];
  end
  always_comb begin
    case (shift_q)
      2'd0: out = banks;
      2'd1: out = {banks[63:0], banks[255:64]};
      2'd2: out = {banks[127:0], banks[255:128]};
      default: out = {banks[191:0], banks[255:192]};
    endcase
    if (head_q) out[63:0] = {id_i, len_q, 16'd0, status_q, op_i | 8'h80};
  end

  // ---- the answer ------------------------------------------------------------------------------------------------
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      busy_q    <= 1'b0;
      armed_q   <= 1'b0;
      m_valid_o <= 1'b0;
    end else begin
      armed_q <= arm_i;
      if (start_i) busy_q <= 1'b1;
      else busy_q <= live && !(go && left_q <= 6'd4);
      if (room) m_valid_o <= live && ready;
    end
  always_ff @(posedge clk_i)
    if (!(busy_q || armed_q)) begin
      head_q   <= 1'b1;
      status_q <= status_i;
      len_q    <= len_i;
      left_q   <= left_i;
      need_q   <= {1'b0, from_i[5:2]} + {4'd0, |from_i[1:0]};
      shift_q  <= from_i[1:0];
    end else if (go) begin
      head_q <= 1'b0;
      left_q <= left_q - 6'd4;
      need_q <= need_q + 5'd1;
    end
  always_ff @(posedge clk_i)
    if (room) begin  // without an answer too, so that only the sink enables this many registers
      for (int l = 0; l < 4; l++) begin
        m_keep_o[l] <= left_q > l[5:0] && !drop_i;
        m_data_o[l*64+:64] <= left_q > l[5:0] ? out[l*64+:64] : 64'd0;
      end
      m_last_o   <= left_q <= 6'd4;
      m_user_o   <= {drop_i, tag_i};
      m_status_o <= status_q;
    end
endmodule
