// A small queue whose head is there without asking (first word falls through). For descriptors, not for payload.
//
// src_valid_i/src_ready_o put, snk_valid_o/snk_ready_i take; both may happen in one clock. One clock from put to take.
module ki_fifo #(
    parameter int WIDTH = 32,
    parameter int DEPTH = 4    // a power of two, at least 2
) (
    input  logic             clk_i,
    input  logic             rst_ni,
    input  logic             src_valid_i,
    output logic             src_ready_o,
    input  logic [WIDTH-1:0] src_data_i,
    output logic             snk_valid_o,
    input  logic             snk_ready_i,
    output logic [WIDTH-1:0] snk_data_o
);
  localparam int Bits = $clog2(DEPTH);

  initial if (DEPTH < 2 || (1 << Bits) != DEPTH) $fatal(1, "DEPTH must be a power of two, at least 2");

  logic [WIDTH-1:0] mem[DEPTH];
  logic [Bits:0] head_q, tail_q;
  logic put, take;

  assign src_ready_o = (tail_q - head_q) != (Bits + 1)'(DEPTH);
  assign snk_valid_o = tail_q != head_q;
  assign snk_data_o  = mem[head_q[Bits-1:0]];
  assign put         = src_valid_i && src_ready_o;
  assign take        = snk_valid_o && snk_ready_i;

  always_ff @(posedge clk_i) if (put) mem[tail_q[Bits-1:0]] <= src_data_i;

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      head_q <= '0;
      tail_q <= '0;
    end else begin
      if (put) tail_q <= tail_q + 1'b1;
      if (take) head_q <= head_q + 1'b1;
    end
endmodule
