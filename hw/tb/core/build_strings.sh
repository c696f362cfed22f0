#!/bin/sh
# build_strings.sh OUT [-DMACRO]: the Verilator model of ki_strings with its bench -> OUT/strings_tb
set -eu
hw=$(cd "$(dirname "$0")/../.." && pwd)
out=$1; shift
mkdir -p "$out"
verilator --cc --exe --build -O3 --x-assign unique --x-initial unique --assert -Wall "$@" -I"$hw/rtl/core" --top-module ki_strings --Mdir "$out" \
    -o strings_tb -CFLAGS -std=c++17 "$hw/rtl/core/core.vlt" "$hw/rtl/core/ki_strings.sv" "$hw/rtl/core/ki_index.sv" "$hw/rtl/core/ki_slab.sv" \
    "$hw/rtl/core/ki_crc32.sv" "$hw/tb/core/strings_tb.cpp" > "$out/log" 2>&1 || { tail -30 "$out/log"; exit 1; }
