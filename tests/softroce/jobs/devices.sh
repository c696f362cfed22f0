# Shows that the guest is what it should be: an active RDMA device on the address of the job, and the peer within reach.
set -e
. "$SOFTROCE_LIB"
uname -r
rdma link show
grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
meet up
busybox ping -c 1 -W 10 "$SOFTROCE_PEER" >/dev/null
meet done
