// A cell, any cell, is followed. `f_out`: it is given out. Nobody frees what was not given out (the contexts' promise, assumed
// here and asserted in the core's bench). Then: no cell is given out twice, and none is lost.
(* anyconst *) logic [CELL_BITS-1:0] f_cell;
logic f_out;
logic [CELL_BITS:0] f_given;
logic f_past = 1'b0;
initial assume (!rst_ni);
always @(posedge clk_i) f_past <= 1'b1;
always @(posedge clk_i) if (f_past) assume (rst_ni);
always @(*) assume ({1'b0, f_cell} < Cells);

always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) begin
    f_out   <= 1'b0;
    f_given <= '0;
  end else begin
    if (took && cell_o == f_cell) f_out <= 1'b1;
    if (free_i && free_cell_i == f_cell) f_out <= 1'b0;
    f_given <= f_given + {{CELL_BITS{1'b0}}, took} - {{CELL_BITS{1'b0}}, free_i};
  end
// whoever frees holds a cell; the followed cell only if it is out
always @(posedge clk_i)
  if (rst_ni) begin
    if (free_i) assume (f_given != 0);
    if (free_i && free_cell_i == f_cell) assume (f_out);
    if (free_i) assume ({1'b0, free_cell_i} < Cells);
  end
// none of the other cells is freed in the followed one's place: with everything out but one, that one is it
logic [CELL_BITS:0] f_places;
assign f_places = count_q + {{CELL_BITS{1'b0}}, head_v_q} + {{CELL_BITS{1'b0}}, next_v_q} + {{CELL_BITS{1'b0}}, rd_v_q};
always @(posedge clk_i)
  if (rst_ni) begin
    a_not_twice : assert (!(took && cell_o == f_cell && f_out));
    a_range : assert (!took || {1'b0, cell_o} < Cells);
    a_none_lost : assert (f_given + f_places + (Cells - fresh_q) == Cells);
    a_used : assert (used_q == f_given);
    a_order : assert (head_v_q || !next_v_q);
    c_all_out_and_back : cover (f_out && f_given == Cells);
  end
// no stall: with cells enough, whoever asks is served. Two clocks after reset there is always a head unless memory is short.
logic [1:0] f_age;
always_ff @(posedge clk_i or negedge rst_ni)
  if (!rst_ni) f_age <= '0;
  else if (f_age != 2'd3) f_age <= f_age + 1'b1;
always @(posedge clk_i)
  if (rst_ni && f_age == 2'd3 && fresh_q < Cells) a_no_stall : assert (valid_o);
// even from the free list: if four or more are back, the head is there
logic [CELL_BITS:0] f_count1, f_count2;
always_ff @(posedge clk_i) {f_count1, f_count2} <= {count_q, f_count1};
always @(posedge clk_i)
  if (rst_ni && f_age == 2'd3 && f_count2 >= 2 && f_count1 >= 2 && count_q >= 2) a_no_stall_recycled : assert (valid_o);
