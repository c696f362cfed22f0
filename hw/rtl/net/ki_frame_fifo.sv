// A payload buffer that can forget: beats are written on trust and count only when the frame is committed.
//
//      rd          commit        wr
//   ---+-------------+------------+----      read side sees rd..commit
//      | whole frames | one on trust |        commit_i: commit := wr     rollback_i: wr := commit
//
// A checksum is known only when a frame has ended; until then nobody behind may see it. Who reads knows from elsewhere
// (a descriptor queue) how many beats a frame has. A write that finds no room is lost and sets full_o until the next
// commit or rollback: the writer must roll back. A frame is put together with its commit or rollback, never in one
// clock with a write of the next.
//
// Who reads takes LANES words a clock; a frame begins with the lowest lane, and what its last beat has above its last word is anything.
module ki_frame_fifo #(
    parameter int WIDTH = 64,
    parameter int DEPTH = 1024,  // words; a power of two
    parameter int LANES = 1      // words of a beat on the reading side; a power of two
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             wr_valid_i,
    input  logic [WIDTH-1:0] wr_data_i,
    input  logic             commit_i,
    input  logic             rollback_i,
    output logic             room_o,      // a write now finds room
    output logic             full_o,      // a word of the frame on trust was lost
    output logic             snk_valid_o,
    input  logic             snk_ready_i,
    output logic [LANES*WIDTH-1:0] snk_data_o
);
  localparam int Bits = $clog2(DEPTH);
  localparam int LaneBits = $clog2(LANES);
  localparam int Rows = DEPTH / LANES;
  localparam logic [Bits:0] InBeat = (Bits + 1)'(LANES - 1);

  initial begin
    if (DEPTH < 4 * LANES || (1 << Bits) != DEPTH) $fatal(1, "DEPTH must be a power of two, at least four beats");
    if ((1 << LaneBits) != LANES) $fatal(1, "LANES must be a power of two");
  end

  logic [Bits:0] rd_q, commit_q, wr_q;
  logic has_room, lost_q, fetch;

  assign has_room = (wr_q - rd_q) != (Bits + 1)'(DEPTH);
  assign room_o   = has_room;
  assign full_o   = lost_q || (wr_valid_i && !has_room);
  assign fetch    = rd_q != commit_q && (!snk_valid_o || snk_ready_i);

  for (genvar l = 0; l < LANES; l++) begin : g_lane
    logic [WIDTH-1:0] mem[Rows];
    always_ff @(posedge clk_i) begin
      if (wr_valid_i && has_room && (wr_q & InBeat) == (Bits + 1)'(l)) mem[wr_q[Bits-1:LaneBits]] <= wr_data_i;
      if (fetch) snk_data_o[l*WIDTH+:WIDTH] <= mem[rd_q[Bits-1:LaneBits]];
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      rd_q        <= '0;
      commit_q    <= '0;
      wr_q        <= '0;
      lost_q      <= 1'b0;
      snk_valid_o <= 1'b0;
    end else begin
      if (wr_valid_i && has_room) wr_q <= wr_q + 1'b1;
      if (wr_valid_i && !has_room) lost_q <= 1'b1;
      if (commit_i) begin
        commit_q <= (wr_q + InBeat) & ~InBeat;
        wr_q     <= (wr_q + InBeat) & ~InBeat;
        lost_q   <= 1'b0;
      end
      if (rollback_i) begin
        wr_q   <= commit_q;
        lost_q <= 1'b0;
      end
      if (fetch) begin
        rd_q        <= rd_q + (Bits + 1)'(LANES);
        snk_valid_o <= 1'b1;
      end else if (snk_ready_i) snk_valid_o <= 1'b0;
    end

`ifdef VERILATOR  // Icarus has no named immediate assertions
  always_ff @(posedge clk_i)
    if (rst_ni) begin
      a_one_end : assert (!(commit_i && rollback_i));
      a_no_write_at_end : assert (!((commit_i || rollback_i) && wr_valid_i));
      a_commit_only_whole : assert (!(commit_i && lost_q));
    end
`endif
endmodule
