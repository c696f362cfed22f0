# The order of the paper's bars (figures 4 and 5): tcp, verbs, RDMA writes (messages), RDMA reads (GET*), each in turn; with two guests
# the server is on one machine and the client on the other, as the paper has it.
# Arguments: the `kintsugi` command; operations a transaction (one and eight); rounds (3).
# Its table is for the eye: the emulated machine says who is faster than whom, not by how much.
. "$SOFTROCE_LIB"
set -e
kintsugi=$1 sizes=${2:-1 8} rounds=${3:-3}
if [ "$SOFTROCE_ROLE" = a ]; then
    # Regions that an adapter can lock in a small machine's memory; and readers here are slower than the window of 20 ms.
    "$kintsugi" serve --port 0 --threads 1 --shards 4 --region-size 16mb --window-ms 2000 \
        --fabric "tcp:$SOFTROCE_ADDRESS:7400 verbs:$SOFTROCE_ADDRESS:7401 rdma:$SOFTROCE_ADDRESS:7402" >"$TMPDIR/server" 2>&1 &
    server=$!
    { listening 7400 && listening 7401 && listening 7402; } || { cat "$TMPDIR/server"; exit 1; }
fi
meet serving
if [ "$SOFTROCE_ADDRESS" = "$SOFTROCE_PEER" ] || [ "$SOFTROCE_ROLE" = b ]; then
    at=$SOFTROCE_PEER
    for size in $sizes; do
        timeout 120 "$kintsugi" bench a1 --connect "tcp:$at:7400,verbs:$at:7401,rdma:$at:7402" \
            --clients 1 --seconds 1 --rounds "$rounds" --size "$size" --out "$TMPDIR/order"
    done
fi
meet measured
[ "$SOFTROCE_ROLE" = b ] || kill "$server"
