# Tests against a device. Arguments: pairs of a test program and a filter of its tests.
set -e
while [ $# -gt 0 ]; do
    timeout 200 "$1" "$2" --nocapture 2>&1 | grep -v '^$'
    [ "${PIPESTATUS[0]}" = 0 ]
    shift 2
done
