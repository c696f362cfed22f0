# Remote I/O over verbs and over rdma: a target, and clients in other processes; with two guests, the clients on the other machine.
# Checksums of every byte; clients and the target killed while blocks are under way; disk errors. Argument: the `kintsugi` command.
. "$SOFTROCE_LIB"
kintsugi=$1
status=0
fail() { echo "FAILED: $*"; status=1; }
mine() { [ "$SOFTROCE_ROLE" = a ]; }
# What runs where the clients are: the other guest, if there is one.
clients() { [ "$SOFTROCE_ADDRESS" = "$SOFTROCE_PEER" ] || ! mine; }
target_at=10.77.0.1
fabrics="verbs:$target_at:7501 rdma:$target_at:7502"
bytes=$((2 << 20))

# serve [FLAG...]: a target for both fabrics.
serve() {
    "$kintsugi" target --trust-network --fabric "verbs:$target_at:7501" --fabric "rdma:$target_at:7502" \
        --volume "data=$TMPDIR/data" --volume "s-verbs=$TMPDIR/s-verbs,rw" --volume "s-rdma=$TMPDIR/s-rdma,rw" "$@" \
        >>"$TMPDIR/target.out" 2>&1 &
    target=$!
    listening 7501 && listening 7502 || { cat "$TMPDIR/target.out"; exit 1; }
}
# end: the target in good order.
end() { kill "$target"; wait "$target" || fail "the target, status $?"; }
# io WHAT FABRIC VOLUME [ARGUMENT...]. What it complains of through a file, so that no progress is drawn.
io() {
    local what=$1 fabric=$2 volume=$3 status=0 complaints=$TMPDIR/complaints.$BASHPID
    shift 3
    timeout 100 "$kintsugi" io "$what" --timeout 60 --fabric "$fabric" --volume "$volume" "$@" 2>"$complaints" || status=$?
    cat "$complaints" >&2
    return $status
}
# The CRC-32C that a command of `kintsugi io` has printed.
sum() { sed -n 's/.*CRC-32C \([0-9a-f]*\).*/\1/p'; }

if mine; then
    head -c $bytes /dev/urandom >"$TMPDIR/data"
    for f in verbs rdma; do truncate -s $bytes "$TMPDIR/s-$f"; done
    sha256sum <"$TMPDIR/data" >"$SOFTROCE_OUT/sha"
    serve
fi
meet serving || exit 1

echo "-- every byte, both ways, both fabrics at once"
if clients; then
    whole() {
        io copy "$1" data : "$TMPDIR/copy.$2" >"$TMPDIR/out.$2" || return 1
        sha256sum <"$TMPDIR/copy.$2" | cmp - "$SOFTROCE_OUT/sha" || return 1
        [ "$(io verify "$1" data | sum)" = "$(sum <"$TMPDIR/out.$2")" ] || return 1
        io copy "$1" "s-$2" "$TMPDIR/copy.$2" : >/dev/null || return 1
        io verify "$1" "s-$2" --file "$TMPDIR/copy.$2" || return 1
    }
    for fabric in $fabrics; do whole "$fabric" "${fabric%%:*}" & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid" || fail "a copy"; done
    # The canary: what differs is seen.
    printf x | dd of="$TMPDIR/copy.rdma" bs=1 seek=1000000 conv=notrunc status=none
    io verify "rdma:$target_at:7502" data --file "$TMPDIR/copy.rdma" 2>&1 | grep -q 'differ at byte' || fail "a difference was not seen"
    want=$(sum <"$TMPDIR/out.rdma")
fi
meet copied || exit 1
if mine; then
    for f in verbs rdma; do sha256sum <"$TMPDIR/s-$f" | cmp - "$SOFTROCE_OUT/sha" || fail "what was written over $f"; done
    open=$(ls "/proc/$target/fd" | wc -l)
fi
meet counted || exit 1

echo "-- clients killed with requests in flight"
if clients; then
    for wait in 0.2 0.5 0.9; do
        for fabric in $fabrics; do
            "$kintsugi" io verify --fabric "$fabric" --volume data >/dev/null 2>&1 & victim=$!
            sleep $wait
            kill -9 $victim 2>/dev/null || true
            wait $victim 2>/dev/null
        done
    done
    for fabric in $fabrics; do [ "$(io verify "$fabric" data | sum)" = "$want" ] || fail "$fabric after killed clients"; done
fi
meet killed || exit 1
if mine; then
    for _ in $(seq 100); do [ "$(ls "/proc/$target/fd" | wc -l)" -gt "$open" ] || break; sleep 0.1; done
    now=$(ls "/proc/$target/fd" | wc -l)
    [ "$now" -le "$open" ] || { fail "$now descriptors after killed clients, $open before"; ls -l "/proc/$target/fd"; }
fi

for round in 1 2; do
    echo "-- the target killed and started again, round $round"
    meet "round$round" || exit 1
    pids=()
    if clients; then
        for fabric in $fabrics; do
            { [ "$(io verify "$fabric" data | sum)" = "$want" ]; } & pids+=($!)
        done
    fi
    if mine; then
        # Both are connected, and somewhere within their blocks.
        for _ in $(seq 300); do
            [ "$(ss -Htn state established "( sport = :7501 or sport = :7502 )" | wc -l)" -lt 2 ] || break
            sleep 0.1
        done
        sleep 0.$((2 * round))
        kill -9 "$target"
        wait "$target" 2>/dev/null
        serve
    fi
    for pid in "${pids[@]}"; do wait "$pid" || fail "a client of a target that was killed"; done
done
meet restarted || exit 1

echo "-- disk errors are errors"
if mine; then end; serve --fault read:4096-8192:eio; fi
meet faulty || exit 1
if clients; then
    for fabric in $fabrics; do
        io verify "$fabric" data 2>&1 | grep -q 'disk failed (errno 5)' || fail "an error of the disk over $fabric"
        io verify "$fabric" "s-${fabric%%:*}" 2>&1 | grep -q 'disk failed (errno 5)' || fail "an error of the disk over $fabric"
    done
fi
meet done || exit 1
if mine; then
    end
    grep -i panic "$TMPDIR/target.out" && fail "the target complains"
fi
exit $status
