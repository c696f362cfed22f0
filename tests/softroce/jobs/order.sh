# The order of the paper's bars (figure 4): tcp, verbs, RDMA writes (messages), RDMA reads (GET*), each in turn.
# Argument: the `kintsugi` command. Its table is for the eye: the emulated machine says who is faster than whom, not by how much.
set -e
kintsugi=$1
# Regions that an adapter can lock in a small machine's memory; and readers here are slower than the window of 20 ms.
export KINTSUGI_REGION_SIZE=16mb KINTSUGI_WINDOW_MS=2000
timeout 200 "$kintsugi" bench a1 --fabrics tcp,verbs,rdma --clients 1 --threads 1 --seconds 1 --rounds 3 --out "$TMPDIR/order"
