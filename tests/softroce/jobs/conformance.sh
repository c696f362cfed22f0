# The conformance suite of crates/fabric between two machines. Arguments: the test program, filters of its tests.
# Guest b is the other side: the suite's deputy there listens, holds the regions, and starts, stops and kills processes.
. "$SOFTROCE_LIB"
conformance=$1
shift
status=0
if [ "$SOFTROCE_ROLE" = b ]; then
    # It ends with its standard input.
    sleep infinity | KINTSUGI_FABRIC_ROLE=deputy KINTSUGI_FABRIC_ADDRESS="$SOFTROCE_ADDRESS:7500" \
        "$conformance" --exact child --nocapture --test-threads=1 >"$TMPDIR/deputy" 2>&1 &
    listening 7500 || { cat "$TMPDIR/deputy"; exit 1; }
fi
meet deputy || exit 1
if [ "$SOFTROCE_ROLE" = a ]; then
    for filter in "$@"; do
        KINTSUGI_FABRIC_DEPUTY="$SOFTROCE_PEER:7500" \
            timeout 220 "$conformance" "$filter" --nocapture --test-threads=1 2>&1 | grep -v '^$'
        [ "${PIPESTATUS[0]}" = 0 ] || { echo "FAILED: $filter"; status=1; }
    done
fi
meet done || exit 1
[ "$SOFTROCE_ROLE" = a ] || ! grep -i -A4 panic "$TMPDIR/deputy" || status=1
exit $status
