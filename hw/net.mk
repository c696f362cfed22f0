# The network side, the whole, and their simulations.

NET_RTL := $(wildcard $(HW)/rtl/net/*.sv)
TOP_RTL := $(NET_RTL) $(wildcard $(HW)/rtl/core/*.sv) $(HW)/rtl/kintsugi_top.sv
TOP_VLT := $(HW)/rtl/net/net.vlt $(HW)/rtl/core/core.vlt
# Parameters of the model; the C++ needs the first three to take the AXI ports apart.
CONTEXTS  ?= 8
PORTS     ?= 2
ADDR_BITS ?= 16
APPLIANCE := $(BUILD)/appliance/appliance
# The software server that the appliance is compared with, if it was built.
SERVER    ?= $(ROOT)/target/release/kintsugi
REF     := $(ROOT)/spec/reference

.PHONY: net-lint net-test vectors sim sim-test whole-test whole-long whole-cocotb whole-cocotb-long
lint: net-lint
test: vectors net-test sim-test whole-test whole-cocotb
long: whole-long whole-cocotb-long net-icarus

net-lint: tools
	$(WITH) verilator --lint-only -Wall -sv --top-module ki_net $(HW)/rtl/net/net.vlt $(NET_RTL)
	$(WITH) verible-verilog-lint --rules_config $(HW)/verible.rules $(NET_RTL) $(HW)/tb/net/ki_net_echo.sv

vectors:
	$(PYTHON) $(REF)/generate.py --check
	$(PYTHON) $(REF)/generate.py --canary

net-test: tools
	$(WITH) python $(HW)/tb/run.py ki_net_echo tb/net/test_net.py --sources 'rtl/net/*.sv' 'tb/net/*.sv' --build $(BUILD)

# The same bench in another simulator, if it is installed: what both understand alike, synthesis is likely to.
.PHONY: net-icarus
net-icarus: tools
	@command -v iverilog > /dev/null || { echo "hw: icarus: SKIPPED: no iverilog"; exit 0; }; \
	$(WITH) python $(HW)/tb/run.py ki_net_echo tb/net/test_net.py --sim icarus --sources 'rtl/net/*.sv' 'tb/net/*.sv' --build $(BUILD)

sim: $(APPLIANCE)

$(APPLIANCE): $(TOP_RTL) $(TOP_VLT) $(wildcard $(HW)/rtl/core/*.svh) $(wildcard $(HW)/sim/*) $(HW)/net.mk | tools
	mkdir -p $(@D)
	$(WITH) verilator --cc --exe --build -j 2 -O3 --assert --x-assign unique --x-initial unique -Wno-fatal \
	  -I$(HW)/rtl/core --top-module kintsugi_top --Mdir $(@D) -o appliance \
	  -GCONTEXTS=$(CONTEXTS) -GPORTS=$(PORTS) -GADDR_BITS=$(ADDR_BITS) \
	  -CFLAGS "-O2 -std=c++17 -DTOP_CONTEXTS=$(CONTEXTS) -DTOP_PORTS=$(PORTS) -DTOP_ADDR_BITS=$(ADDR_BITS)" \
	  $(TOP_VLT) $(TOP_RTL) $(HW)/sim/main.cpp

# What must fail is a canary: a memory that is far too slow for the line; one changed bit of an expected answer.
sim-test: sim
	$(APPLIANCE) vectors $(ROOT)/spec/vectors/v1/*.json
	$(APPLIANCE) vectors --memory random --stalls $(ROOT)/spec/vectors/v1/*.json
	$(APPLIANCE) line
	! $(APPLIANCE) line --ctrl 3000 --requests 300 > /dev/null 2>&1
	sed '0,/"answers": \["81/s//"answers": ["91/' $(ROOT)/spec/vectors/v1/string.json > $(BUILD)/string.json
	! $(APPLIANCE) vectors $(BUILD)/string.json 2>/dev/null

whole-test: sim
	$(PYTHON) $(HW)/sim/test_whole.py $(APPLIANCE) --server $(SERVER)

whole-long: sim
	$(PYTHON) $(HW)/sim/test_whole.py $(APPLIANCE) --server $(SERVER) --operations 100000 --seed 2

# The same through cocotb: its MAC, its memories, every channel stalled at random, the Python reference; with its canary.
WHOLE_COCOTB := $(WITH) python $(HW)/tb/run.py ki_whole_bench tb/whole/test_top.py --include rtl/core tb/whole --build $(BUILD) \
  --sources 'rtl/core/*.sv' 'rtl/net/*.sv' rtl/kintsugi_top.sv tb/whole/ki_whole_bench.sv
whole-cocotb: tools
	$(WHOLE_COCOTB)

whole-cocotb-long: tools
	export KINTSUGI_OPERATIONS=4000; $(WHOLE_COCOTB)

# Writes docs/results/appliance-line.*
.PHONY: line
line: sim
	$(PYTHON) $(HW)/sim/line.py $(APPLIANCE) $(ROOT)/docs/results
