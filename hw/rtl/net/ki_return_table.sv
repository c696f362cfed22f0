// Where answers go: each request on its way through the core holds a slot of this table, and its tag is the slot's number.
//
//   descriptor, beats --> [take a free slot, keep address] --> stream to the core, tag on every beat
//   answer's tag      --> [read address, free the slot]    --> packet generator
//
// Slots that were never used are counted off, used ones wait in a queue: no list to be set up after reset. No free slot:
// requests wait in the receive buffer, and when that is full frames are dropped there, whole and counted.
module ki_return_table #(
    parameter int SLOTS = 256  // requests on their way; a power of two, at most 65536
) (
    input  logic         clk_i,
    input  logic         rst_ni,
    // from ki_net_rx
    input  logic         req_valid_i,
    output logic         req_ready_o,
    input  logic [103:0] req_desc_i,
    input  logic         req_beat_valid_i,
    output logic         req_beat_ready_o,
    input  logic [255:0] req_beat_i,
    // to the core
    output logic         core_valid_o,
    input  logic         core_ready_i,
    output logic [255:0] core_data_o,
    output logic [  3:0] core_keep_o,    // words that are there, from the lowest
    output logic         core_last_o,
    output logic [ 15:0] core_tag_o,
    // from the packet generator: the address {mac 48, ip 32, port 16} comes one clock after the tag, whose slot is free then
    input  logic         look_valid_i,
    input  logic [ 15:0] look_tag_i,
    output logic [ 95:0] look_address_o
);
  localparam int Bits = $clog2(SLOTS);

  initial if (SLOTS < 2 || SLOTS > 65536 || (1 << Bits) != SLOTS) $fatal(1, "SLOTS must be a power of two");

  logic [95:0] mem[SLOTS];
  logic [Bits:0] fresh_q;  // slots from here on were never used
  logic has_fresh, used_valid, used_ready, slot_there, start, busy_q;
  logic [Bits-1:0] used_slot, slot, tag_q;
  logic [7:0] left_q;  // words
  logic put_ready;

  assign has_fresh        = fresh_q != (Bits + 1)'(SLOTS);
  assign slot_there       = has_fresh || used_valid;
  assign slot             = has_fresh ? fresh_q[Bits-1:0] : used_slot;
  assign start            = !busy_q && req_valid_i && slot_there;
  assign req_ready_o      = start;
  assign used_ready       = start && !has_fresh;

  assign core_valid_o     = busy_q && req_beat_valid_i;
  assign core_data_o      = req_beat_i;
  assign core_last_o      = left_q <= 8'd4;
  assign core_keep_o      = {left_q > 8'd3, left_q > 8'd2, left_q > 8'd1, 1'b1};
  assign core_tag_o       = 16'(tag_q);
  assign req_beat_ready_o = busy_q && core_ready_i;

  ki_fifo #(
      .WIDTH(Bits),
      .DEPTH(SLOTS)
  ) u_used (
      .clk_i,
      .rst_ni,
      .src_valid_i(look_valid_i),
      .src_ready_o(put_ready),
      .src_data_i (look_tag_i[Bits-1:0]),
      .snk_valid_o(used_valid),
      .snk_ready_i(used_ready),
      .snk_data_o (used_slot)
  );

  always_ff @(posedge clk_i) begin
    if (start) mem[slot] <= req_desc_i[95:0];
    look_address_o <= mem[look_tag_i[Bits-1:0]];
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      fresh_q <= '0;
      busy_q  <= 1'b0;
      left_q  <= '0;
      tag_q   <= '0;
    end else if (start) begin
      if (has_fresh) fresh_q <= fresh_q + 1'b1;
      busy_q <= 1'b1;
      left_q <= req_desc_i[103:96];
      tag_q  <= slot;
    end else if (core_valid_o && core_ready_i) begin
      left_q <= left_q - 8'd4;
      busy_q <= !core_last_o;
    end

`ifdef VERILATOR  // Icarus has no named immediate assertions
  always_ff @(posedge clk_i)
    if (rst_ni) begin
      a_queue_holds_all_slots : assert (!look_valid_i || put_ready);
      a_tag_in_range : assert (!look_valid_i || 32'(look_tag_i) < SLOTS);
      a_request_has_beats : assert (!start || req_desc_i[103:96] != 0);
    end
`endif
endmodule
