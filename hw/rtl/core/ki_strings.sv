// Strings from on-chip memory: one GET or SET that hits a clock, 156 million a second at 156.25 MHz.
//
//   clock  0     1     2 .. 6              7       8         9         10        11
//          key   key   index pipeline      pointer read      capture   compare   write, answer
//          CRC   CRC   (ki_index, five)            the cell            the key   the value
//
// The same index pipeline as the engine's, with cells (key and value, one width each) in on-chip memory instead of DRAM. Whole keys are
// compared. A fingerprint of somebody else sends the operation round again with that way skipped, before new ones; all operations on one key take the same
// rounds, so their order holds. ADD brings a key in: it waits for the pipeline to be empty, and so do those behind it.
//
// Hazards. The cell of an operation is read in clock 8 and written in clock 11, so what the three operations before it wrote is not in
// what it read. The values they wrote wait in three registers; whether they are about the same cell is compared when the pointers meet, early.
//
//   GET   status 0 and the value; 1: not there
//   SET   status 0, the value replaced; 1: not there (nothing changed)
//   ADD   status 0, key and value stored; 2: it was there (nothing changed); 3: no room
module ki_strings #(
    parameter int BUCKET_BITS = 10,
    parameter int WAYS        = 4,
    parameter int FP_BITS     = 16,
    parameter int CELL_BITS   = 10,
    parameter int VALUE_BITS  = 128,
    parameter int TAG_BITS    = 16
) (
    input  logic                  clk_i,
    input  logic                  rst_ni,
    input  logic                  s_valid_i,
    output logic                  s_ready_o,
    input  logic [           1:0] s_op_i,     // 0 GET, 1 SET, 2 ADD
    input  logic [         127:0] s_key_i,    // 16 bytes
    input  logic [VALUE_BITS-1:0] s_value_i,
    input  logic [  TAG_BITS-1:0] s_tag_i,
    output logic                  m_valid_o,  // never held
    output logic [           1:0] m_status_o,
    output logic [VALUE_BITS-1:0] m_value_o,
    output logic [  TAG_BITS-1:0] m_tag_o
);
  localparam logic [1:0] OpSet = 2'd1, OpAdd = 2'd2;
  localparam int Depth = 12;  // clocks 0 to 11

  // everything an operation carries, clock by clock
  logic [Depth-1:0] v_q;
  logic [1:0] op_q[Depth];
  logic [127:0] key_q[Depth];
  logic [VALUE_BITS-1:0] val_q[Depth];
  logic [TAG_BITS-1:0] tag_q[Depth];
  logic [31:0] hash_q[Depth];
  logic [WAYS-1:0] skip_q[Depth];

  // ---- entrance: a second round first; ADD alone ------------------------------------------------------------------
  logic again, take, quiet, adding_q, ix_ready;
  assign quiet = v_q == '0 && !adding_q;
  assign s_ready_o = ix_ready && !again && !adding_q && (s_op_i != OpAdd || quiet);
  assign take = s_valid_i && s_ready_o;

  logic [31:0] crc0, crc1;
  ki_crc32 u_crc0 (.crc_i(32'hffff_ffff), .data_i(key_q[0][63:0]), .crc_o(crc0));
  ki_crc32 u_crc1 (.crc_i(hash_q[1]), .data_i(key_q[1][127:64]), .crc_o(crc1));

  // ---- index ------------------------------------------------------------------------------------------------------
  logic r_valid, r_hit;
  logic [1:0] r_op;
  logic [WAYS-1:0] r_way;
  logic [CELL_BITS-1:0] r_ptr, add_cell;
  logic [2:0] r_type;
  logic r_id;
  logic insert_q, insert_wait_q, cell_ok, cell_take;
  logic [31:0] insert_hash;
  ki_index #(.BUCKET_BITS(BUCKET_BITS), .WAYS(WAYS), .FP_BITS(FP_BITS), .PTR_BITS(CELL_BITS), .ID_BITS(1)) u_index (
      .clk_i, .rst_ni, .req_valid_i(v_q[2] || insert_q), .req_ready_o(ix_ready), .req_op_i(insert_q ? 2'd1 : 2'd0), .req_id_i(1'b0),
      .req_hash_i(insert_q ? insert_hash : hash_q[2]), .req_item_i(1'b0), .req_type_i(3'd0), .req_old_i('0), .req_new_i(add_cell),
      .req_skip_i(insert_q ? '0 : skip_q[2]), .rsp_valid_o(r_valid), .rsp_op_o(r_op), .rsp_id_o(r_id), .rsp_hit_o(r_hit),
      .rsp_way_o(r_way), .rsp_type_o(r_type), .rsp_ptr_o(r_ptr));

  // ---- cells --------------------------------------------------------------------------------------------------------
  (* ram_style = "block", no_rw_check *) logic [128+VALUE_BITS-1:0] cells[2**CELL_BITS];
  logic [128+VALUE_BITS-1:0] rd9_q, rd10_q;
  logic [CELL_BITS-1:0] ptr8_q, ptr9_q, ptr10_q, ptr11_q;
  logic hit8_q, hit9_q, hit10_q, hit11_q, eq11_q;
  logic [WAYS-1:0] way8_q, way9_q, way10_q, way11_q;
  logic [VALUE_BITS-1:0] mem11_q;
  logic [3:1] same9_q, same10_q, same11_q;  // the operation 1, 2, 3 ahead is about the same cell
  logic [3:1] wrote_q;                      // and wrote (in clock 11, so many clocks ago)
  logic [VALUE_BITS-1:0] h1_q, h2_q, h3_q;

  logic found, write;
  logic [VALUE_BITS-1:0] now11;
  always_comb begin
    now11 = mem11_q;
    if (same11_q[3] && wrote_q[3]) now11 = h3_q;
`ifndef MUTANT_STALE
    if (same11_q[2] && wrote_q[2]) now11 = h2_q;
`endif
    if (same11_q[1] && wrote_q[1]) now11 = h1_q;
  end
  assign found = v_q[11] && hit11_q && eq11_q;
  assign write = found && op_q[11] == OpSet;
  assign again = v_q[11] && hit11_q && !eq11_q;  // somebody else's fingerprint

  // ---- ADD: looked up like the others; not there: a cell, the index, the memory --------------------------------------
  logic add_miss, add_done, add_write;
  assign add_miss = v_q[11] && op_q[11] == OpAdd && !hit11_q;
  assign add_done = insert_wait_q && r_valid && r_op == 2'd1;
  assign add_write = add_done && r_hit;
  assign cell_take = add_write;
  logic [127:0] add_key_q;
  logic [VALUE_BITS-1:0] add_val_q;
  logic [TAG_BITS-1:0] add_tag_q;
  logic [31:0] add_hash_q;
  logic [CELL_BITS:0] used;
  assign insert_hash = add_hash_q;
  ki_slab #(.CELL_BITS(CELL_BITS)) u_cells (.clk_i, .rst_ni, .valid_o(cell_ok), .cell_o(add_cell), .take_i(cell_take), .free_i(1'b0),
      .free_cell_i('0), .used_o(used));

  always_ff @(posedge clk_i) begin
    if (write) cells[ptr11_q] <= {key_q[11], val_q[11]};
    else if (add_write) cells[add_cell] <= {add_key_q, add_val_q};
    rd9_q <= cells[ptr8_q];
  end

  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) begin
      v_q <= '0;
      wrote_q <= '0;
      {insert_q, insert_wait_q, adding_q} <= '0;
      m_valid_o <= 1'b0;
    end else begin
      v_q <= {v_q[Depth-2:0], take || again};
      wrote_q <= {wrote_q[2:1], write};
      insert_q <= add_miss && cell_ok;
      if (insert_q) insert_wait_q <= 1'b1;
      else if (add_done) insert_wait_q <= 1'b0;
      if (take && s_op_i == OpAdd) adding_q <= 1'b1;
      else if (add_done || (add_miss && !cell_ok) || (found && op_q[11] == OpAdd)) adding_q <= 1'b0;
      m_valid_o <= (v_q[11] && !again && !(add_miss && cell_ok)) || add_done;
    end

  always_ff @(posedge clk_i) begin
    for (int i = 1; i < Depth; i++) begin
      op_q[i]   <= op_q[i-1];
      key_q[i]  <= key_q[i-1];
      val_q[i]  <= val_q[i-1];
      tag_q[i]  <= tag_q[i-1];
      skip_q[i] <= skip_q[i-1];
      if (i > 2) hash_q[i] <= hash_q[i-1];
    end
    hash_q[1] <= crc0;
    hash_q[2] <= crc1;
    op_q[0]   <= again ? op_q[11] : s_op_i;
    key_q[0]  <= again ? key_q[11] : s_key_i;
    val_q[0]  <= again ? val_q[11] : s_value_i;
    tag_q[0]  <= again ? tag_q[11] : s_tag_i;
    skip_q[0] <= again ? skip_q[11] | way11_q | (way11_q - 1'b1) : '0;

    {ptr8_q, hit8_q, way8_q} <= {r_ptr, r_hit, r_way};
    {ptr9_q, hit9_q, way9_q} <= {ptr8_q, hit8_q, way8_q};
    {ptr10_q, hit10_q, way10_q} <= {ptr9_q, hit9_q, way9_q};
    {ptr11_q, hit11_q, way11_q} <= {ptr10_q, hit10_q, way10_q};
    rd10_q  <= rd9_q;
    mem11_q <= rd10_q[VALUE_BITS-1:0];
    eq11_q  <= rd10_q[VALUE_BITS+:128] == key_q[10];
    same9_q <= {ptr11_q == ptr8_q, ptr10_q == ptr8_q, ptr9_q == ptr8_q};
    same10_q <= same9_q;
    same11_q <= same10_q;
    {h1_q, h2_q, h3_q} <= {val_q[11], h1_q, h2_q};

    if (add_miss) {add_key_q, add_val_q, add_tag_q, add_hash_q} <= {key_q[11], val_q[11], tag_q[11], hash_q[11]};
    m_tag_o    <= add_done ? add_tag_q : tag_q[11];
    m_value_o  <= now11;
    m_status_o <= add_done ? {!r_hit, !r_hit} : op_q[11] == OpAdd ? (found ? 2'd2 : 2'd3) : {1'b0, !found};
  end
endmodule
