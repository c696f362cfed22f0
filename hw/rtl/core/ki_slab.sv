// The slab allocator: cells of 64, 128, 256 and 512 bytes, one a clock, no waiting.
//
// Each class owns a part of the address space, cut into cells at elaboration:
//
//      base                                   base + cells
//      | given out at least once | fresh ->   |          `fresh` counts upwards: nothing to initialise
//
//      free list:  head register <- FIFO memory <- freed cells
//
// The next cell to be given out always waits in a register (`head`), filled again behind the back of whoever took it: from the
// free list's memory if there is one there, else from `fresh`. So an allocation is answered in the clock in which it is asked,
// and a class can give out a cell in every clock. The memory read takes one clock; a second register (`next`) covers it.
//
// Invariant (formal/slab.sby): every cell is in exactly one place: given out, head, next, the free list, or not yet fresh.
//
// Source: the appliance paper's slab classes (section 4.4), whose allocator is a soft CPU that stops the pipeline; here it is a FIFO.
module ki_slab #(
    parameter int CELL_BITS = 10,  // cells of this class: 2**CELL_BITS
    parameter int CELLS     = 2 ** CELL_BITS
) (
    input  logic                 clk_i,
    input  logic                 rst_ni,
    // take_i with valid_o takes cell_o; valid_o = 0 is exhaustion (or the clock or two after the last cell came back)
    output logic                 valid_o,
    output logic [CELL_BITS-1:0] cell_o,
    input  logic                 take_i,
    input  logic                 free_i,
    input  logic [CELL_BITS-1:0] free_cell_i,
    output logic [  CELL_BITS:0] used_o      // cells given out and not returned
);
  localparam logic [CELL_BITS:0] Cells = CELLS[CELL_BITS:0];
  initial if (CELLS > 2 ** CELL_BITS || CELLS < 2) $fatal(1, "cells do not fit their number");

  logic [CELL_BITS-1:0] mem[2**CELL_BITS];
  logic [CELL_BITS-1:0] rd_q;
  logic [CELL_BITS-1:0] wr_ptr_q, rd_ptr_q;
  logic [CELL_BITS:0] count_q, fresh_q, used_q;  // count: cells in the memory
  logic head_v_q, next_v_q, rd_v_q;
  logic [CELL_BITS-1:0] head_q, next_q;

  logic took, pull, pull_fresh;
  assign took = take_i && head_v_q;
  // what will be in head, next or on its way after this clock must fit two registers. The memory answers a clock later, so if
  // nothing is left for the next clock a fresh cell fills the gap.
  logic [1:0] stock;
  assign stock = {1'b0, head_v_q} + {1'b0, next_v_q} + {1'b0, rd_v_q} - {1'b0, took};
  assign pull = stock < 2'd2 && count_q != 0;
  assign pull_fresh = fresh_q < Cells && (stock == 2'd0 || (stock == 2'd1 && !pull));

  // where a cell that arrives in this clock goes: from memory (asked for in the clock before) or from fresh
  logic head_v_d, next_v_d;
  logic [CELL_BITS-1:0] head_d, next_d;
  always_comb begin
    head_v_d = head_v_q && !took;
    head_d   = head_q;
    next_v_d = next_v_q;
    next_d   = next_q;
    if (!head_v_d && next_v_d) begin
      head_v_d = 1'b1;
      head_d   = next_q;
      next_v_d = 1'b0;
    end
    if (rd_v_q) begin
      if (!head_v_d) begin
        head_v_d = 1'b1;
        head_d   = rd_q;
      end else begin
        next_v_d = 1'b1;
        next_d   = rd_q;
      end
    end
    if (pull_fresh) begin
      if (!head_v_d) begin
        head_v_d = 1'b1;
        head_d   = fresh_q[CELL_BITS-1:0];
      end else begin
        next_v_d = 1'b1;
        next_d   = fresh_q[CELL_BITS-1:0];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (free_i) mem[wr_ptr_q] <= free_cell_i;
    rd_q <= mem[rd_ptr_q];
    head_q <= head_d;
    next_q <= next_d;
  end
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      {head_v_q, next_v_q, rd_v_q} <= '0;
      {wr_ptr_q, rd_ptr_q} <= '0;
      {count_q, fresh_q, used_q} <= '0;
    end else begin
      head_v_q <= head_v_d;
      next_v_q <= next_v_d;
      rd_v_q   <= pull;
      if (free_i) wr_ptr_q <= wr_ptr_q + 1'b1;
      if (pull) rd_ptr_q <= rd_ptr_q + 1'b1;
`ifdef MUTANT_COUNT_RACE
      if (free_i) count_q <= count_q + 1'b1;
      else if (pull) count_q <= count_q - 1'b1;
`else
      count_q <= count_q + {{CELL_BITS{1'b0}}, free_i} - {{CELL_BITS{1'b0}}, pull};
`endif
`ifdef MUTANT_FRESH_TWICE
      if (pull_fresh && !took) fresh_q <= fresh_q + 1'b1;
`else
      if (pull_fresh) fresh_q <= fresh_q + 1'b1;
`endif
      used_q <= used_q + {{CELL_BITS{1'b0}}, took} - {{CELL_BITS{1'b0}}, free_i};
    end

  assign valid_o = head_v_q;
  assign cell_o  = head_q;
  assign used_o  = used_q;

`ifdef FORMAL
  `include "ki_slab_props.svh"
`endif
endmodule
