# The network side, the whole, and their simulations.

NET_RTL := $(wildcard $(HW)/rtl/net/*.sv)
REF     := $(ROOT)/spec/reference

.PHONY: net-lint net-test vectors
lint: net-lint
test: vectors net-test

net-lint: tools
	$(WITH) verilator --lint-only -Wall -sv --top-module ki_net $(HW)/rtl/net/net.vlt $(NET_RTL)
	$(WITH) verible-verilog-lint --rules_config $(HW)/verible.rules $(NET_RTL) $(HW)/tb/net/ki_net_echo.sv

vectors:
	$(PYTHON) $(REF)/generate.py --check
	$(PYTHON) $(REF)/generate.py --canary

net-test: tools
	$(WITH) python $(HW)/tb/run.py ki_net_echo tb/net/test_net.py --sources 'rtl/net/*.sv' 'tb/net/*.sv' --build $(BUILD)
