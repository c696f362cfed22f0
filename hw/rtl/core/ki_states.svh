// The states of a context, included inside its modules that go by them. One hot: these are the numbers of the bits.
/* verilator lint_off UNUSEDPARAM */
localparam int SIdle = 0, SLook = 1, SWait = 2, SRead = 3, SCompare = 4, SExec = 5, SAlloc = 6, SItem = 7, SItemW = 8, SRoot = 9;
localparam int SRootW = 10, SOrder = 11, SOrderW = 12, SWrite = 13, SLinkA = 14, SLinkB = 15, SFree = 16, SDone = 17, STail = 18;
localparam int STailW = 19, SUndoI = 20, SUndoR = 21, SUndoF = 22, SRecord = 23, SStats = 24, SOrder2 = 25, SOrder2W = 26;
localparam int SRange = 27, SScore = 28, States = 29;
/* verilator lint_on UNUSEDPARAM */
