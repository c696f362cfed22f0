// Numbers of spec/wire.md, included inside the modules that need them.
/* verilator lint_off UNUSEDPARAM */
localparam logic [7:0] OpPing = 8'h00, OpGet = 8'h01, OpSet = 8'h02, OpDel = 8'h03;
localparam logic [7:0] OpLpush = 8'h11, OpRpush = 8'h12, OpLpop = 8'h13, OpRpop = 8'h14;
localparam logic [7:0] OpHget = 8'h21, OpHset = 8'h22, OpHdel = 8'h23;
localparam logic [7:0] OpSadd = 8'h31, OpSrem = 8'h32, OpSismember = 8'h33, OpSpop = 8'h34;
localparam logic [7:0] OpZadd = 8'h41, OpZscore = 8'h42, OpZrem = 8'h43, OpZpopmin = 8'h44, OpZrange = 8'h45;
localparam logic [7:0] OpStats = 8'h70;
localparam logic [2:0] TyString = 3'd0, TyList = 3'd1, TyHash = 3'd2, TySet = 3'd3, TyZset = 3'd4;
localparam logic [7:0] StOk = 8'h00, StMiss = 8'h01, StReplaced = 8'h02;
localparam logic [7:0] StBadOp = 8'h40, StBadField = 8'h41, StTooLong = 8'h42, StBadValue = 8'h43;
localparam logic [7:0] StWrongType = 8'h44, StNoMemory = 8'h45, StFull = 8'h46;
// operations of the index pipeline, of the order unit
localparam logic [1:0] IxLookup = 2'd0, IxInsert = 2'd1, IxUpdate = 2'd2, IxDelete = 2'd3;
localparam logic [1:0] OrInsert = 2'd0, OrRemove = 2'd1, OrPopmin = 2'd2, OrAt = 2'd3;
/* verilator lint_on UNUSEDPARAM */
