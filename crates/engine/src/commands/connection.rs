//! The connection: entries only; the front end runs these commands.
use super::front;
use super::parse::{NO_KEYS, commands};
use crate::Command;

pub(crate) static TABLE: &[Command] = commands! { Connection:
    "ping" -1 (FAST) NO_KEYS Front Read "1.0.0" "O(1)"
        "[message]" "Answers PONG, or the message." => front;
    "echo" 2 (FAST|LOADING|STALE) NO_KEYS Front Read "1.0.0" "O(1)"
        "message" "Answers the message." => front;
    "hello" -1 (FAST|NO_AUTH|LOADING|STALE) NO_KEYS Front Read "6.0.0" "O(1)"
        "[protover [AUTH username password] [SETNAME clientname]]"
        "Chooses the protocol version, and answers with what the server is." => front;
    "auth" -2 (FAST|NO_AUTH|LOADING|STALE) NO_KEYS Front Read "1.0.0" "O(1)"
        "[username] password" "Authenticates the connection." => front;
    "select" 2 (FAST|LOADING|STALE) NO_KEYS Front Read "1.0.0" "O(1)"
        "index" "Chooses a database; there is one, 0." => front;
    "quit" -1 (FAST|NO_AUTH|LOADING|STALE) NO_KEYS Front Read "1.0.0" "O(1)"
        "" "Closes the connection." => front;
    "reset" 1 (FAST|NO_AUTH|LOADING|STALE) NO_KEYS Front Read "6.2.0" "O(1)"
        "" "Brings the connection back to the state in which it began." => front;
    "client" -2 (LOADING|STALE) NO_KEYS Front Read "2.4.0" "O(N) for LIST and KILL where N is the number of connections, else O(1)"
        "subcommand [argument ...]" "Names, lists, pauses and closes connections." => front;
};
