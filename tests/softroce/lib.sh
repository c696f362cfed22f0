# For jobs: `. "$SOFTROCE_LIB"`.

# meet NAME: both guests wait here for each other; at once with one guest. Fails after 200 s.
meet() {
    [ "$SOFTROCE_ADDRESS" != "$SOFTROCE_PEER" ] || return 0
    local other=b
    [ "$SOFTROCE_ROLE" = a ] || other=a
    : >"$SOFTROCE_OUT/met.$1.$SOFTROCE_ROLE"
    for _ in $(seq 2000); do
        [ ! -e "$SOFTROCE_OUT/met.$1.$other" ] || return 0
        [ ! -e "$SOFTROCE_OUT/status.$other" ] || break
        sleep 0.1
    done
    echo "the other guest did not come to '$1'" >&2
    return 1
}

# listening PORT: waits until somebody listens on a TCP port of this guest. Fails after 30 s.
listening() {
    for _ in $(seq 300); do
        ! ss -Hltn "sport = :$1" | grep -q . || return 0
        sleep 0.1
    done
    echo "nobody listens on port $1" >&2
    return 1
}
