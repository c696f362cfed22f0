// STATS, answered beside the core: requests with that operation are taken out of the stream, their answers merged in.
//
//   requests --+--> core --------------------+--> answers
//              +--> here: 1 + 16 beats ------+        a frame at a time
//
// The core thus knows nothing of the network's counters. Others pass without a clock of delay.
module ki_stats (
    input  logic          clk_i,
    input  logic          rst_ni,
    input  logic [1023:0] numbers_i,     // sixteen of 64 bits, the first lowest (spec/wire.md)
    // requests
    input  logic          req_valid_i,
    output logic          req_ready_o,
    input  logic [  63:0] req_data_i,
    input  logic          req_last_i,
    input  logic [  15:0] req_tag_i,
    output logic          core_valid_o,
    input  logic          core_ready_i,
    // answers
    input  logic          core_valid_i,
    output logic          core_ready_o,
    input  logic [  63:0] core_data_i,
    input  logic          core_last_i,
    input  logic [  16:0] core_tag_i,
    output logic          ans_valid_o,
    input  logic          ans_ready_i,
    output logic [  63:0] ans_data_o,
    output logic          ans_last_o,
    output logic [  16:0] ans_tag_o
);
  localparam logic [7:0] Stats = 8'h70;
  localparam logic [7:0] BadField = 8'h41;

  logic first_q, mine_q, mine;          // of the request in the stream
  logic want_q, good_q;                 // an answer that is due
  logic [15:0] tag_q, id_q;
  logic sending_q, core_frame_q;        // whose frame the answers are in
  logic [4:0] beat_q;
  logic good_now;
  logic [1023:0] shot_q;                // the numbers as they were when the answer began

  assign mine         = first_q ? req_data_i[7:0] == Stats : mine_q;
  assign core_valid_o = req_valid_i && !mine;
  // One answer is kept; the next STATS waits for it, and so does what is behind.
  assign req_ready_o  = mine ? !(first_q && (want_q || sending_q)) : core_ready_i;
  // Nothing but the operation, the version and the id may be there.
  assign good_now     = req_data_i[11:8] == 0 && req_data_i[47:16] == 0;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      first_q      <= 1'b1;
      mine_q       <= 1'b0;
      want_q       <= 1'b0;
      sending_q    <= 1'b0;
      core_frame_q <= 1'b0;
      beat_q       <= '0;
    end else begin
      if (req_valid_i && req_ready_o) begin
        first_q <= req_last_i;
        mine_q  <= mine;
        if (first_q && mine) want_q <= 1'b1;
      end
      if (core_valid_i && core_ready_o) core_frame_q <= !core_last_i;
      // Its turn comes when a frame of the core ends, or while the core is silent.
      if (want_q && !sending_q && (core_valid_i ? core_ready_o && core_last_i : !core_frame_q)) begin
        sending_q <= 1'b1;
        want_q    <= 1'b0;
        beat_q    <= '0;
      end else if (sending_q && ans_ready_i) begin
        beat_q <= beat_q + 1'b1;
        if (ans_last_o) sending_q <= 1'b0;
      end
    end

  always_ff @(posedge clk_i) begin
    if (req_valid_i && req_ready_o && first_q && mine) begin
      tag_q  <= req_tag_i;
      id_q   <= req_data_i[63:48];
      good_q <= good_now;
    end
    if (!sending_q) shot_q <= numbers_i;
    else if (ans_ready_i && beat_q != 0) shot_q <= {64'b0, shot_q[1023:64]};
  end

  assign core_ready_o = ans_ready_i && !sending_q;
  assign ans_valid_o  = sending_q || core_valid_i;
  assign ans_tag_o    = sending_q ? {1'b0, tag_q} : core_tag_i;
  assign ans_last_o   = sending_q ? (!good_q || beat_q == 5'd16) : core_last_i;
  assign ans_data_o   = !sending_q ? core_data_i
      : beat_q == 0 ? {id_q, good_q ? 16'd128 : 16'd0, 16'b0, good_q ? 8'h00 : BadField, Stats | 8'h80}
      : shot_q[63:0];
endmodule
