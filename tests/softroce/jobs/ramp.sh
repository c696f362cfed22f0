# RAMP transactions over verbs and over rdma: a server, and clients in other processes; with two guests, on both machines at once.
# Arguments: the `kintsugi` command, the example programs `atomic` and `collections` of crates/client.
. "$SOFTROCE_LIB"
kintsugi=$1 atomic=$2 collections=$3
status=0
fail() { echo "FAILED: $*"; status=1; }

# clients ADDRESS OPERATIONS: a process with two clients for each fabric at once, all on the same keys.
clients() {
    local pids=() pid
    for at in "verbs:$1:7401" "rdma:$1:7402"; do
        timeout 150 "$atomic" "$at" "$2" 2 & pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || fail "a client, status $?"; done
}

if [ "$SOFTROCE_ROLE" = a ]; then
    # A server for both fabrics. Its regions are wholly in memory, so they are small. A reader that takes longer than the
    # window begins again; an emulated machine on a busy one takes longer than 20 ms.
    "$kintsugi" serve --port 0 --threads 2 --shards 4 --region-size 16mb --window-ms 2000 \
        --fabric "verbs:$SOFTROCE_ADDRESS:7401 rdma:$SOFTROCE_ADDRESS:7402" >"$TMPDIR/server" 2>&1 &
    server=$!
    listening 7401 && listening 7402 || { cat "$TMPDIR/server"; exit 1; }
fi
meet serving || exit 1
if [ "$SOFTROCE_ROLE" = a ]; then clients "$SOFTROCE_ADDRESS" 20; else clients "$SOFTROCE_PEER" 20; fi
# Items of collections: over rdma without a message, over verbs by messages.
at=$([ "$SOFTROCE_ROLE" = a ] && echo "$SOFTROCE_ADDRESS" || echo "$SOFTROCE_PEER")
timeout 150 "$collections" "rdma:$at:7402" --one-sided || fail "collections over rdma, status $?"
timeout 150 "$collections" "verbs:$at:7401" || fail "collections over verbs, status $?"
meet served || exit 1
[ "$SOFTROCE_ROLE" = a ] || exit $status

# The canary: clients that write key by key must be caught, or the ones above see nothing at all.
timeout 100 "$atomic" "rdma:$SOFTROCE_ADDRESS:7402" 100000 4 canary --broken 2>/dev/null || fail "no halves of writes were seen"
kill "$server"
wait "$server" || fail "the server, status $?"
grep -i -E 'panic|error' "$TMPDIR/server" && fail "the server complains"
exit $status
