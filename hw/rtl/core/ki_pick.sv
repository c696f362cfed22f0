// Round robin: the first request inside the mask, or else the first of all. Combinational.
module ki_pick #(
    parameter int N = 4
) (
    input  logic [N-1:0] req_i,
    input  logic [N-1:0] mask_i,
    output logic [N-1:0] pick_o
);
  logic [N-1:0] masked;
  assign masked = req_i & mask_i;
  assign pick_o = |masked ? masked & (~masked + 1'b1) : req_i & (~req_i + 1'b1);
endmodule
