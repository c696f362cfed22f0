//! The server: entries of commands that the front end runs, and COMMAND, which describes the table itself.
use super::front;
use super::parse::{NO_KEYS, commands};
use crate::{Command, describe};

pub(crate) static TABLE: &[Command] = commands! { Server:
    "command" -1 (LOADING|STALE) NO_KEYS Front Read "2.8.13" "O(N) where N is the number of commands described"
        "[COUNT | INFO [name ...] | DOCS [name ...] | LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>] | GETKEYS command [argument ...] | GETKEYSANDFLAGS command [argument ...] | HELP]"
        "Describes commands." => |c| describe::command(c.args, c.out);
    "info" -1 (LOADING|STALE) NO_KEYS Front Read "1.0.0" "O(1)"
        "[section [section ...]]" "Shows figures about the server." => front;
    "config" -2 (ADMIN|LOADING|STALE) NO_KEYS Front Read "2.0.0" "O(N) where N is the number of parameters"
        "<GET pattern [pattern ...] | SET parameter value [parameter value ...] | RESETSTAT | REWRITE | HELP>"
        "Shows and changes the configuration." => front;
    "time" 1 (FAST|LOADING|STALE) NO_KEYS Front Read "2.6.0" "O(1)"
        "" "Returns the server's time: seconds since the Unix epoch, and microseconds." => front;
    "function" -2 () NO_KEYS Front Read "7.0.0" "O(1)"
        "FLUSH [ASYNC | SYNC]" "There are no functions; FLUSH succeeds, so that clients that clean up go on." => front;
};
