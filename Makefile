# The commands a person needs; `make help` lists them.
#
#   make          build, and run the demonstration
#   make serve    build, and serve Redis clients on 127.0.0.1:6379
#   make test     everything that must hold: format, lints, Rust tests, Redis's own suite, the hardware, end-to-end tests
#
# The end-to-end tests need redis-cli, Python 3 with venv, and (for one of them) Go; Redis's own
# suite needs redis-server, tcl, dpkg-dev and a Debian mirror, and is left out where it cannot be had; so are the
# tests on an RDMA device (tests/softroce), which need QEMU, a Debian kernel, and the user's part of ibverbs;
# `.ci/run` installs what is missing on a Debian-like system and then runs `make test`.

SHELL    := /bin/bash
CARGO    ?= cargo
PYTHON   ?= python3
KINTSUGI := target/release/kintsugi
VENV     := .cache/venv
PYTEST   := $(VENV)/bin/pytest -c tests/pytest.ini
SECONDS_PER_SOAK ?= 60

.DEFAULT_GOAL := main

.PHONY: main build serve test fmt clippy rust-test e2e python history differential suite suite-if-there suite-audit softroce softroce-if-there hw hw-long loom shuttle miri fuzz soak bench clean help

help: ## list these commands
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

main: build ## build, then show fractured reads without isolation and none with it
	$(KINTSUGI) demo --exit
	@echo
	@echo "To serve:    $(KINTSUGI) serve      (or: make serve)"
	@echo "To connect:  redis-cli -p 6379"

build: ## build the release binary
	$(CARGO) build --release --locked

serve: build ## build, then serve on 127.0.0.1:6379
	$(KINTSUGI) serve

test: fmt clippy rust-test loom shuttle build suite-if-there softroce-if-there hw python e2e ## everything that must hold

fmt:
	$(CARGO) fmt --all -- --check

clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy -p kintsugidb-client --features sim --all-targets --locked -- -D warnings

rust-test: ## unit, property, model and simulator tests
	$(CARGO) test --workspace --locked
	$(CARGO) test -p kintsugidb-client --features sim --locked --test sim

e2e: build $(VENV)/.ready ## real servers, real clients, recorded histories
	$(PYTEST) tests

python: $(VENV)/.ready ## build the Python package, and install it where the tests run
	$(VENV)/bin/pip install --quiet 'maturin>=1.7,<2'
	cd python && CARGO_TARGET_DIR=../target/python ../$(VENV)/bin/maturin build --release --locked --quiet --out ../.cache/wheels
	$(VENV)/bin/pip install --quiet --force-reinstall --no-deps --no-index --find-links .cache/wheels kintsugidb

history: build $(VENV)/.ready ## only the recorded histories
	$(PYTEST) tests/history

loom: ## models of the memory layout and of message rings, every order of their steps
	RUSTFLAGS="--cfg model --cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --release --locked -p kintsugidb-arena -p kintsugidb-fabric --test loom

shuttle: ## the same code in drawn schedules of many more steps: tables that grow, cells that are recycled, rings that are gone round
	RUSTFLAGS="--cfg model --cfg shuttle" CARGO_TARGET_DIR=target/shuttle $(CARGO) test --release --locked -p kintsugidb-arena -p kintsugidb-fabric --test shuttle

miri: ## what is unsafe, under Miri (needs: rustup component add --toolchain nightly miri rust-src)
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri test -p kintsugidb-arena --lib --test garbage
	MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri $(CARGO) +nightly miri test -p kintsugidb-fabric --lib -- ring:: memory:: handshake::

fuzz: ## every fuzz target for a minute each (needs: cargo install cargo-fuzz, a nightly toolchain)
	for dir in crates/*/fuzz; do for target in $$(basename -s .rs $$dir/fuzz_targets/*.rs); do \
	  (cd $$dir/.. && $(CARGO) +nightly fuzz run $$target -- -max_total_time=60) || exit 1; done; done

soak: build $(VENV)/.ready ## recorded histories for longer (SECONDS_PER_SOAK=60 each)
	$(VENV)/bin/python tests/history/run.py --seconds $(SECONDS_PER_SOAK) --canary

differential: build $(VENV)/.ready ## random commands to redis-server and to Kintsugi, replies compared
	$(VENV)/bin/python tests/differential/run.py --seconds $(SECONDS_PER_SOAK)

suite: build ## Redis's own Tcl suite, against both servers
	tests/redis-suite/run

suite-if-there: build
	tests/redis-suite/run --optional

suite-audit: build ## the same, and what expected-missing.txt lists must fail
	tests/redis-suite/run --audit

softroce: build ## real verbs, in guests with Soft-RoCE under QEMU
	tests/softroce/check

softroce-if-there: build
	tests/softroce/check --optional

hw: build ## the hardware: lint, vectors, random runs, shallow proofs, the kernel and the server as clients (needs g++, perl)
	$(MAKE) --no-print-directory -C hw test

hw-long: build ## its long set: deep proofs, a million operations a configuration
	$(MAKE) --no-print-directory -C hw long

bench: build ## the benchmarks, each with its baseline in the same run
	$(KINTSUGI) bench redis
	$(KINTSUGI) bench isolation --threads 2
	$(KINTSUGI) bench memory
	$(KINTSUGI) bench instructions
	for figure in b1 b2 b3 b4 b5 b6; do $(KINTSUGI) bench $$figure || exit 1; done
	$(CARGO) bench --locked -p kintsugidb-arena --bench read

$(VENV)/.ready: tests/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --requirement tests/requirements.txt
	touch $@

clean:
	$(CARGO) clean
	rm -rf .cache
