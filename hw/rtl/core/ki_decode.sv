// What the oldest request of a context is: its operation as flags, its lengths as numbers of words.
//
// All outputs are registers, one clock behind the head of the queue: nothing that a state decides on starts with an operation's code.
//
//      words of the cell     0 1   key .. val   subkey .. cmp   value .. last          (without a subkey, or for the root, cmp is val)
module ki_decode (
    input  logic       clk_i,
    // the head of the queue
    input  logic [7:0] op_i,
    input  logic [6:0] klen_i,
    input  logic [6:0] slen_i,
    input  logic [8:0] vlen_i,
    input  logic       item_i,       // key and subkey are compared, else the key alone
    // words of the cell
    output logic [5:0] val_o,        // the key's last: before the value, or a set's member
    output logic [5:0] cmp_o,        // the last that is compared
    output logic [5:0] last_o,       // the last
    output logic [1:0] score_o,      // lane of the first word of the value
    // the operation
    output logic       sub_o,        // has a subkey
    output logic       read_o,       // reads one value, or says whether there is one
    output logic       remove_o,     // removes the item that it names
    output logic       add_o,        // writes a cell
    output logic       set_o,
    output logic       del_o,
    output logic       rpush_o,
    output logic       lpop_o,
    output logic       rpop_o,
    output logic       hset_o,
    output logic       sadd_o,
    output logic       sismember_o,
    output logic       spop_o,
    output logic       zadd_o,
    output logic       zrem_o,
    output logic       zpopmin_o,
    output logic       zrange_o
);
  `include "ki_defs.svh"

  logic [5:0] kw, ksw;  // words of the key, of key and subkey
  assign kw  = {2'd0, klen_i[6:3]} + {5'd0, |klen_i[2:0]};
  assign ksw = {2'd0, klen_i[6:3]} + {2'd0, slen_i[6:3]} + {5'd0, |klen_i[2:0]} + {5'd0, |slen_i[2:0]};
  always_ff @(posedge clk_i) begin
    val_o <= kw + 6'd1;
    cmp_o <= (item_i ? ksw : kw) + 6'd1;
    last_o <= {2'd0, klen_i[6:3]} + {2'd0, slen_i[6:3]} + vlen_i[8:3] + {5'd0, |klen_i[2:0]} + {5'd0, |slen_i[2:0]} +
        {5'd0, |vlen_i[2:0]} + 6'd1;
    score_o <= ksw[1:0] + 2'd2;
    sub_o <= slen_i != 0;
    {set_o, del_o} <= {op_i == OpSet, op_i == OpDel};
    {rpush_o, lpop_o, rpop_o} <= {op_i == OpRpush, op_i == OpLpop, op_i == OpRpop};
    {hset_o, sadd_o, sismember_o, spop_o} <= {op_i == OpHset, op_i == OpSadd, op_i == OpSismember, op_i == OpSpop};
    {zadd_o, zrem_o, zpopmin_o, zrange_o} <= {op_i == OpZadd, op_i == OpZrem, op_i == OpZpopmin, op_i == OpZrange};
    read_o <= op_i == OpGet || op_i == OpHget || op_i == OpSismember || op_i == OpZscore;
    remove_o <= op_i == OpHdel || op_i == OpSrem || op_i == OpZrem;
    add_o <= op_i == OpSet || op_i == OpLpush || op_i == OpRpush || op_i == OpHset || op_i == OpSadd || op_i == OpZadd;
  end
endmodule
