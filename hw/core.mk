# The engine core: lint, proofs, random and vector runs, figures.

CORE_RTL := $(wildcard $(HW)/rtl/core/*.sv)
CORE_TB  := $(BUILD)/c8/core_tb
VECTORS  := $(shell echo $(ROOT)/spec/vectors/v1/*.json | tr ' ' ,)
CORE_SRC := $(CORE_RTL) $(wildcard $(HW)/rtl/core/*.svh) $(wildcard $(HW)/sim/*.h) $(HW)/tb/core/core_tb.cpp $(HW)/tb/core/build.py

.PHONY: core-lint core-test core-formal core-cocotb core-cocotb-long core-place core-long figures
lint: core-lint
test: core-formal core-test core-cocotb
long: core-long core-cocotb-long core-place

core-lint: tools
	$(PYTHON) $(HW)/tools/gen_crc.py --check
	$(PYTHON) $(HW)/tools/doc_ports.py --check
	$(PYTHON) $(HW)/tools/doc_ports.py --canary
	$(WITH) verilator --lint-only -Wall -sv --top-module ki_strings -I$(HW)/rtl/core $(HW)/rtl/core/core.vlt $(CORE_RTL)
	$(WITH) verilator --lint-only -Wall -sv --top-module kintsugi_core -I$(HW)/rtl/core $(HW)/rtl/core/core.vlt $(CORE_RTL)
	$(WITH) verible-verilog-lint --rules_config $(HW)/verible.rules $(CORE_RTL)

core-formal: tools
	$(WITH) python $(HW)/formal/run.py

$(CORE_TB): $(CORE_SRC) | tools
	$(WITH) python $(HW)/tb/core/build.py $(BUILD) c8

core-test: $(CORE_TB)
	timeout 500 $(CORE_TB) random --ops 20000 --seed 1
	timeout 500 $(CORE_TB) random --ops 10000 --seed 2 --mem ddr3-1600 --keys 8
	timeout 500 $(CORE_TB) vectors --files $(VECTORS)
	timeout 500 $(CORE_TB) vectors --burst --mem onchip --files $(VECTORS)
	timeout 500 $(CORE_TB) random --ops 20000 --canary > /dev/null; test $$? -eq 1
	$(WITH) $(HW)/tb/core/build_strings.sh $(BUILD)/strings
	timeout 500 $(BUILD)/strings/strings_tb 200000 1 12
	timeout 500 $(BUILD)/strings/strings_tb 50000 2 800
	$(WITH) $(HW)/tb/core/build_strings.sh $(BUILD)/strings-stale -DMUTANT_STALE
	timeout 500 $(BUILD)/strings-stale/strings_tb 50000 1 12 > /dev/null; test $$? -eq 1

# against the Python reference, by cocotbext-axi; with its canary
CORE_COCOTB := $(WITH) python $(HW)/tb/run.py ki_core_bench tb/whole/test_core.py --include rtl/core tb/whole --sources 'rtl/core/*.sv' tb/whole/ki_core_bench.sv --build $(BUILD)
core-cocotb: tools
	$(CORE_COCOTB)

# placed and routed: the index pipeline at the line's pace, a context not far from it
core-place: tools
	$(WITH) python $(HW)/syn/clock.py $(BUILD)/clock-index.csv ki_index --at-least 150
	$(WITH) python $(HW)/syn/clock.py $(BUILD)/clock-context.csv ki_context --at-least 125

core-cocotb-long: tools
	export KINTSUGI_OPERATIONS=5000; $(CORE_COCOTB)
	export KINTSUGI_OPERATIONS=2000; $(CORE_COCOTB) --parameter CONTEXTS=8 ORDERS=4

# a million operations a configuration: the usual one, one context, and too little memory (so that it runs out all the time)
core-long: $(CORE_TB)
	$(WITH) python $(HW)/formal/run.py --deep
	$(WITH) python $(HW)/tb/core/build.py $(BUILD) c1 CONTEXTS=1 PORTS=1
	$(WITH) python $(HW)/tb/core/build.py $(BUILD) tight CONTEXTS=5 PORTS=1 ORDERS=1 BUCKET_BITS=5 CELL_BITS_0=6 CELL_BITS_1=5 CELL_BITS_2=4 CELL_BITS_3=3 DIR_BITS=2 LEAF_BITS=4 ADDR_BITS=12
	$(CORE_TB) random --ops 1000000 --seed 11
	$(WITH) $(HW)/tb/core/build_strings.sh $(BUILD)/strings
	$(BUILD)/strings/strings_tb 5000000 3 12
	$(CORE_TB) random --ops 1000000 --seed 12 --keys 5 --mem onchip
	$(BUILD)/c1/core_tb random --ops 1000000 --seed 13
	$(BUILD)/tight/core_tb random --ops 1000000 --seed 14 --tight --keys 40

# The waiting line (C2): the engine's service times beside those of redis-server and memcached, which it starts and stops.
WAITING := $(BUILD)/service_time
.PHONY: waiting-line
waiting-line: $(CORE_TB) $(WAITING)
	$(PYTHON) $(HW)/sim/waiting_line.py $(CORE_TB) $(WAITING) $(ROOT)/docs/results

$(WAITING): $(HW)/sim/service_time.cpp
	mkdir -p $(@D)
	$(CXX) -O2 -std=c++17 -Wall -o $@ $<

figures: tools waiting-line
	$(WITH) python $(HW)/syn/figures.py --build $(BUILD) --out $(ROOT)/docs/results
