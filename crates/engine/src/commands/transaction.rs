//! Transactions: entries only; the front end runs these commands.
use super::front;
use super::parse::{ALL_KEYS, NO_KEYS, commands};
use crate::Command;

pub(crate) static TABLE: &[Command] = commands! { Transactions:
    "multi" 1 (FAST|LOADING|STALE) NO_KEYS Front Read "1.2.0" "O(1)"
        "" "Begins a transaction: the commands that follow are queued." => front;
    "exec" 1 (LOADING|STALE) NO_KEYS Front Read "1.2.0" "The sum of the queued commands"
        "" "Runs the queued commands, visible all at once." => front;
    "discard" 1 (FAST|LOADING|STALE) NO_KEYS Front Read "2.0.0" "O(N) where N is the number of queued commands"
        "" "Forgets the queued commands." => front;
    "watch" -2 (FAST|LOADING|STALE|NO_MULTI) ALL_KEYS Front Read "2.2.0" "O(1) a key"
        "key [key ...]" "Lets the next EXEC do nothing if one of the keys is changed until then." => front;
    "unwatch" 1 (FAST|LOADING|STALE) NO_KEYS Front Read "2.2.0" "O(N) where N is the number of watched keys"
        "" "Forgets the watched keys." => front;
};
